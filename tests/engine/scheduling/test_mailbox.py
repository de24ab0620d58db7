"""Events between the thread that makes them and whoever takes them."""

from __future__ import annotations

import asyncio
import time

import numpy as np

from restrike.engine.events import Event, Noticed, PreviewReady, Started, Stopped
from restrike.engine.scheduling.mailbox import Mailbox
from restrike.errors import Cancelled

from .gating import in_thread

BEGIN = Started(card="digits", seed=1, items=(0,), steps=3)
END = Stopped(error=Cancelled())


def preview(step: int) -> PreviewReady:
    return PreviewReady(item=0, step=step, frames_THWC=np.zeros((1, 8, 8, 3), np.uint8))


def taken(mailbox: Mailbox) -> list[Event]:
    return list(iter(mailbox.take, None))


def test_events_come_in_order_once() -> None:
    mailbox = Mailbox()
    for event in (BEGIN, Noticed(message="a"), END):
        mailbox.put(event)
    assert taken(mailbox) == [BEGIN, Noticed(message="a"), END]
    assert taken(mailbox) == []


def test_only_the_newest_previews_wait_and_nothing_else_is_dropped() -> None:
    mailbox = Mailbox(kept_previews=2)
    mailbox.put(BEGIN)
    for step in range(1000):
        mailbox.put(preview(step))
        if step % 250 == 0:
            mailbox.put(Noticed(message=str(step)))
    mailbox.put(END)
    events = taken(mailbox)
    assert [event.step for event in events if isinstance(event, PreviewReady)] == [998, 999]
    assert [event.message for event in events if isinstance(event, Noticed)] == ["0", "250", "500", "750"]
    assert (events[0], events[-1]) == (BEGIN, END)


def test_a_taker_waits_for_the_next_event() -> None:
    mailbox, found = Mailbox(), list[Event]()
    thread = in_thread(lambda: found.extend(taken(mailbox)))
    for event in (BEGIN, END):
        time.sleep(0.01)
        mailbox.put(event)
    thread.join(10)
    assert found == [BEGIN, END]


def test_every_taker_learns_of_the_end() -> None:
    mailbox, found = Mailbox(), list[list[Event]]()
    threads = [in_thread(lambda: found.append(taken(mailbox))) for _ in range(3)]
    mailbox.put(BEGIN)
    mailbox.put(END)
    for thread in threads:
        thread.join(10)
    assert sorted(len(events) for events in found) in ([0, 0, 2], [0, 1, 1])


def test_a_loop_goes_on_while_a_task_waits() -> None:
    async def run() -> tuple[list[Event], int]:
        mailbox, events, beats = Mailbox(), list[Event](), 0

        async def take() -> None:
            while (event := await mailbox.take_soon()) is not None:
                events.append(event)

        task = asyncio.create_task(take())
        for _ in range(5):
            await asyncio.sleep(0.001)
            beats += 1
        thread = in_thread(lambda: [mailbox.put(event) for event in (BEGIN, END)])
        await task
        thread.join()
        return events, beats

    assert asyncio.run(run()) == ([BEGIN, END], 5)


def test_a_loop_that_was_closed_meanwhile_disturbs_nobody() -> None:
    mailbox = Mailbox()

    async def give_up() -> None:
        task = asyncio.create_task(mailbox.take_soon())
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(give_up())
    mailbox.put(BEGIN)
    mailbox.put(END)
    assert taken(mailbox) == [BEGIN, END]
