"""Submitted requests: order, ends, cancellation, ids, the cap, the thread, and loops that stay responsive."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace

import pytest
import torch

from engine.driving import failing_at, kinds, watched
from restrike.cards.card import ModelCard
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.engine.events import TERMINAL, Event, Failed, PreviewReady, Started, Stopped, Succeeded
from restrike.engine.requests import Cancellation, StreamOptions
from restrike.engine.scheduling.states import State
from restrike.engine.scheduling.submitted import Submitted
from restrike.errors import Cancelled, Crashed, NotFound, Refused, Shortfall
from restrike.loops.denoise import DenoiseState

from .gating import Slots, gated

REQUEST = Request(prompt="a 6", seed=31, steps=3)
WHOLE = ["Started", *["StepFinished"] * 3, "PictureFinished", "Succeeded"]


@dataclass
class Held:
    """The digits card whose steps wait until they are let go; `reached` says that one waits."""

    reached: threading.Event
    go: threading.Event
    calls: Counter[str]
    card: ModelCard


@pytest.fixture
def held() -> Iterator[Held]:
    reached, go, calls = threading.Event(), threading.Event(), Counter[str]()

    def wait(state: DenoiseState) -> None:
        reached.set()
        assert go.wait(60)

    yield Held(reached, go, calls, watched(calls, wait))
    go.set()


@pytest.fixture
def engines() -> Iterator[Callable[..., Engine]]:
    """Makes engines and closes them."""
    made: list[Engine] = []

    def make(concurrency: int = 8, history: int = 256) -> Engine:
        made.append(gated(concurrency=concurrency, history=history))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


def bytes_of(engine: Engine, request: Request) -> bytes:
    return engine.generate("digits", request).picture.frames_THWC.tobytes()


class TestOrder:
    def test_started_first_one_terminal_event_last_and_exact_counts(
        self, engine: Engine, engines: Callable[..., Engine]
    ) -> None:
        submitted = engines().submit("digits", REQUEST)
        assert kinds(list(submitted)) == WHOLE
        assert submitted.state is State.SUCCEEDED
        assert submitted.result().picture.frames_THWC.tobytes() == bytes_of(engine, REQUEST)
        assert list(submitted) == []

    def test_many_at_once_have_the_bytes_of_one_by_one(
        self, engine: Engine, engines: Callable[..., Engine]
    ) -> None:
        asked = [replace(REQUEST, seed=seed, steps=2 + seed % 3, solver="sde") for seed in range(12)]
        scheduler = engines(concurrency=3)
        made = [scheduler.submit("digits", request) for request in asked]
        ends = [each.result().picture.frames_THWC.tobytes() for each in made]
        assert ends == [bytes_of(engine, request) for request in asked]
        assert scheduler.metrics().ended == {State.SUCCEEDED: 12}

    def test_a_request_that_cannot_begin_is_refused_at_once(self, engines: Callable[..., Engine]) -> None:
        with pytest.raises(Refused, match="steps 0"):
            engines().submit("digits", replace(REQUEST, steps=0))

    def test_previews_come_when_asked(self, engines: Callable[..., Engine]) -> None:
        submitted = engines().submit("digits", REQUEST, StreamOptions(preview_every=1))
        assert 1 <= sum(isinstance(event, PreviewReady) for event in submitted) <= 3

    def test_a_slow_taker_misses_previews_and_nothing_else(self, engines: Callable[..., Engine]) -> None:
        submitted = engines().submit("digits", replace(REQUEST, steps=30), StreamOptions(preview_every=1))
        submitted.result()
        events = list(submitted)
        assert [e.step for e in events if isinstance(e, PreviewReady)] == [27, 28, 29, 30]
        assert kinds([e for e in events if not isinstance(e, PreviewReady)]) == [
            "Started",
            *["StepFinished"] * 30,
            "PictureFinished",
            "Succeeded",
        ]


class TestCancellation:
    def test_at_a_step_boundary_at_most_one_further_step(
        self, held: Held, engines: Callable[..., Engine]
    ) -> None:
        submitted = engines().submit(held.card, replace(REQUEST, items=(0, 1)))
        assert held.reached.wait(60)
        assert submitted.cancel()
        held.go.set()
        with pytest.raises(Cancelled, match="cancelled at a step boundary"):
            submitted.result()
        assert submitted.state is State.STOPPED
        assert kinds(list(submitted)) == ["Started", "StepFinished", "Stopped"]
        assert (held.calls["advance"], held.calls["abandon"], held.calls["finalize"]) == (1, 1, 0)
        assert not submitted.cancel()

    def test_while_it_waits_it_never_runs(self, held: Held, engines: Callable[..., Engine]) -> None:
        engine, calls = engines(concurrency=1), Counter[str]()
        running = engine.submit(held.card, REQUEST)
        waiting = engine.submit(watched(calls), REQUEST)
        assert held.reached.wait(60)
        assert waiting.state is State.WAITING
        assert waiting.cancel()
        # At once, though the engine's thread stands in a step of another.
        assert waiting.state is State.STOPPED
        assert kinds(list(waiting)) == ["Started", "Stopped"]
        held.go.set()
        running.result()
        assert calls == {}

    def test_while_it_waits_at_a_gate_too(self, held: Held) -> None:
        engine, calls = gated(Slots(1)), Counter[str]()
        running = engine.submit(held.card, REQUEST)
        assert held.reached.wait(60)
        waiting = engine.submit(watched(calls), REQUEST)
        assert waiting.cancel()
        held.go.set()
        running.result()
        with pytest.raises(Cancelled):
            waiting.result()
        assert calls == {}
        engine.close()

    def test_the_callers_own_flag_works_as_well(self, held: Held, engines: Callable[..., Engine]) -> None:
        cancellation = Cancellation()
        submitted = engines().submit(held.card, REQUEST, StreamOptions(cancellation=cancellation))
        assert held.reached.wait(60)
        cancellation.cancel()
        held.go.set()
        with pytest.raises(Cancelled):
            submitted.result()

    def test_leaving_the_iteration_stops_the_work(self, held: Held, engines: Callable[..., Engine]) -> None:
        engine = engines()
        submitted = engine.submit(held.card, replace(REQUEST, items=tuple(range(50))))
        for event in submitted:
            assert isinstance(event, Started)
            break
        held.go.set()
        with pytest.raises(Cancelled):
            submitted.result()
        assert held.calls["advance"] <= 2
        assert engine._door.counts == (0, 0)

    def test_waiting_for_the_result_with_a_limit_leaves_it_running(
        self, held: Held, engines: Callable[..., Engine]
    ) -> None:
        submitted = engines().submit(held.card, REQUEST)
        with pytest.raises(Shortfall, match=r"'request-1' has not ended within 0\.05 s; it goes on"):
            submitted.result(timeout_s=0.05)
        held.go.set()
        assert submitted.result().seed == 31


class TestIsolation:
    def test_one_failure_leaves_the_neighbours_bytes(
        self, engine: Engine, engines: Callable[..., Engine]
    ) -> None:
        scheduler = engines()
        failing = scheduler.submit(watched(Counter(), failing_at(2, ValueError("broken"))), REQUEST)
        neighbours = [scheduler.submit("digits", replace(REQUEST, seed=seed)) for seed in (1, 2)]
        with pytest.raises(Crashed, match="ValueError: broken"):
            failing.result()
        assert kinds(list(failing)) == ["Started", "StepFinished", "Failed"]
        for seed, neighbour in zip((1, 2), neighbours, strict=True):
            made = neighbour.result().picture.frames_THWC.tobytes()
            assert made == bytes_of(engine, replace(REQUEST, seed=seed))

    def test_code_that_ends_the_program_ends_no_thread(self, engines: Callable[..., Engine]) -> None:
        engine = engines()
        leaving = engine.submit(watched(Counter(), failing_at(2, SystemExit(3))), REQUEST)
        with pytest.raises(Crashed, match="SystemExit"):
            leaving.result()
        assert engine.submit("digits", REQUEST).result().seed == 31


class TestIds:
    def test_one_in_flight_is_refused_and_the_first_completes(
        self, held: Held, engines: Callable[..., Engine]
    ) -> None:
        engine = engines()
        first = engine.submit(held.card, REQUEST, id="mine")
        with pytest.raises(Refused, match="a request with the id 'mine' is in flight"):
            engine.submit("digits", REQUEST, id="mine")
        assert engine.scheduler.find("mine") is first
        held.go.set()
        assert first.result().seed == 31
        assert engine.submit("digits", REQUEST, id="mine").result().seed == 31

    def test_each_has_one_and_an_unknown_one_is_unknown(self, engines: Callable[..., Engine]) -> None:
        engine = engines()
        assert [engine.submit("digits", REQUEST).id for _ in range(2)] == ["request-1", "request-2"]
        with pytest.raises(NotFound, match="no request with the id 'gone' is in flight"):
            engine.scheduler.find("gone")


def test_never_more_than_the_cap_run(engines: Callable[..., Engine]) -> None:
    running: set[int] = set()
    most = 0

    def note(state: DenoiseState) -> None:
        nonlocal most
        running.add(state.context.arguments.seed)
        most = max(most, len(running))
        if state.index == 2:
            running.discard(state.context.arguments.seed)

    engine = engines(concurrency=2)
    made = [engine.submit(watched(Counter(), note), replace(REQUEST, seed=seed)) for seed in range(6)]
    for each in made:
        each.result()
    assert most == 2


def test_a_cap_below_one_is_refused() -> None:
    with pytest.raises(Refused, match="concurrency 0"):
        Engine(concurrency=0)


def test_a_late_one_joins_the_running_ones(held: Held, engines: Callable[..., Engine]) -> None:
    engine = engines()
    early = engine.submit(held.card, replace(REQUEST, steps=50))
    assert held.reached.wait(60)
    late = engine.submit("digits", replace(REQUEST, steps=2))
    held.go.set()
    late.result()
    assert early.state is State.RUNNING
    early.result()


def test_a_late_one_shares_the_forwards_of_running_ones(held: Held) -> None:
    engine = gated(batch_limit=4)
    early = engine.submit(held.card, replace(REQUEST, steps=5))
    assert held.reached.wait(60)
    late = [engine.submit(held.card, replace(REQUEST, seed=seed, steps=3)) for seed in (1, 2)]
    held.go.set()
    for submitted in (early, *late):
        submitted.result()
    # Whoever comes late joins in the round after; all three were in flight before the second round.
    assert dict(engine.metrics().forwards) == {1: 2, 3: 3}
    engine.close()


def test_history_is_bounded_and_keeps_no_picture(engines: Callable[..., Engine]) -> None:
    engine = engines(history=3)
    made = [engine.submit("digits", replace(REQUEST, seed=seed, steps=1)) for seed in range(5)]
    for each in made:
        each.result()
    failing = engine.submit(watched(Counter(), failing_at(1, ValueError("broken"))), REQUEST)
    with pytest.raises(Crashed):
        failing.result()
    records = engine.scheduler.records
    assert [record.id for record in records] == ["request-4", "request-5", "request-6"]
    assert [record.state for record in records] == [State.SUCCEEDED, State.SUCCEEDED, State.FAILED]
    assert str(records[-1].error) == "ValueError: broken"
    assert all(record.seconds > 0 for record in records)
    pictures = weakref.ref(made[0].result())
    del made, each, failing
    gc.collect()
    assert pictures() is None


class TestEnd:
    def test_closing_cancels_joins_and_can_be_repeated(self, held: Held) -> None:
        engine = Engine(device="cpu", concurrency=1)
        running, waiting = engine.submit(held.card, REQUEST), engine.submit("digits", REQUEST)
        assert held.reached.wait(60)
        thread = engine.scheduler._thread
        assert thread is not None
        threading.Timer(0.05, held.go.set).start()
        engine.close()
        assert not thread.is_alive()
        assert (running.state, waiting.state) == (State.STOPPED, State.STOPPED)
        engine.close()
        with pytest.raises(Refused, match="the engine was closed"):
            engine.submit("digits", REQUEST)

    def test_a_block_waits_for_what_was_submitted(self) -> None:
        with Engine(device="cpu") as engine:
            submitted = engine.submit("digits", REQUEST)
        assert submitted.state is State.SUCCEEDED

    def test_a_block_that_fails_cancels_it(self, held: Held) -> None:
        made: list[Submitted] = []

        def block() -> None:
            with Engine(device="cpu") as engine:
                made.append(engine.submit(held.card, REQUEST))
                threading.Timer(0.05, held.go.set).start()
                raise ValueError("mine")

        with pytest.raises(ValueError, match="mine"):
            block()
        assert made[0].state is State.STOPPED

    def test_without_work_the_thread_ends_and_comes_back(self) -> None:
        engine = gated()
        engine.submit("digits", REQUEST).result()
        thread = engine.scheduler._thread
        assert thread is not None
        thread.join(30)
        assert engine.scheduler._thread is None
        assert engine.submit("digits", REQUEST).result().seed == 31
        engine.close()

    def test_a_program_that_forgets_to_close_ends(self) -> None:
        program = (
            "from restrike import Engine, Request\n"
            "engine = Engine(device='cpu')\n"
            "job = engine.submit('digits', Request(prompt='a 6', seed=1, items=tuple(range(1000))))\n"
            "print(type(next(iter(job))).__name__, flush=True)\n"
            "job = engine.submit('digits', Request(prompt='a 6', seed=1, items=tuple(range(1000))))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "Started\n", "")


class TestAsyncio:
    def test_events_and_the_result(self, engine: Engine, engines: Callable[..., Engine]) -> None:
        async def run() -> tuple[list[Event], bytes]:
            submitted = engines().submit("digits", REQUEST)
            events = [event async for event in submitted]
            return events, (await submitted).picture.frames_THWC.tobytes()

        events, made = asyncio.run(run())
        assert kinds(events) == WHOLE
        assert made == bytes_of(engine, REQUEST)

    def test_many_are_watched_by_one_loop(self, engines: Callable[..., Engine]) -> None:
        async def last(engine: Engine, seed: int) -> Event:
            *_, end = [event async for event in engine.submit("digits", replace(REQUEST, seed=seed))]
            return end

        async def run() -> list[Event]:
            engine = engines()
            return list(await asyncio.gather(*(last(engine, seed) for seed in range(6))))

        assert all(isinstance(event, Succeeded) for event in asyncio.run(run()))

    def test_a_failure_is_raised_to_who_awaits(self, engines: Callable[..., Engine]) -> None:
        async def run() -> None:
            await engines().submit(watched(Counter(), failing_at(1, ValueError("broken"))), REQUEST)

        with pytest.raises(Crashed, match="broken"):
            asyncio.run(run())

    def test_cancelling_the_task_that_iterates_stops_the_work(
        self, held: Held, engines: Callable[..., Engine]
    ) -> None:
        async def run() -> State:
            submitted = engines().submit(held.card, REQUEST)

            async def watch() -> None:
                async for _ in submitted:
                    pass

            task = asyncio.create_task(watch())
            while not held.reached.is_set():
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            held.go.set()
            with pytest.raises(Cancelled):
                await submitted
            return submitted.state

        assert asyncio.run(run()) is State.STOPPED

    def test_leaving_the_iteration_stops_the_work(self, held: Held, engines: Callable[..., Engine]) -> None:
        async def run() -> None:
            submitted = engines().submit(held.card, replace(REQUEST, items=tuple(range(50))))
            async for _ in submitted:
                break
            held.go.set()
            with pytest.raises(Cancelled):
                await submitted

        asyncio.run(run())
        assert held.calls["advance"] <= 2

    def test_the_loop_answers_while_a_long_step_runs(self, engines: Callable[..., Engine]) -> None:
        """How long a loop that beats every 5 ms pauses, while each step multiplies matrices for 0.4 s."""
        card = watched(Counter(), multiplying)

        async def run() -> list[float]:
            submitted = engines().submit(card, replace(REQUEST, steps=2))
            return [pause async for pause in pauses(lambda: submitted.state.ended)]

        # A busy machine may well stop us for a moment, but no step may.
        found = sorted(asyncio.run(run()))
        assert found[len(found) * 9 // 10] < 0.1
        assert found[-1] < 0.4

    def test_a_step_on_the_loop_itself_would_be_seen(self) -> None:
        stream = Engine(device="cpu").stream(watched(Counter(), multiplying), replace(REQUEST, steps=2))

        async def run() -> list[float]:
            return [pause async for pause in pauses(lambda: next(stream, None) is None)]

        assert max(asyncio.run(run())) >= 0.4


def multiplying(state: DenoiseState) -> None:
    """A step that takes long, as those of large models do."""
    large, began = torch.ones(600, 600), time.perf_counter()
    while time.perf_counter() - began < 0.4:
        torch.mm(large, large)


async def pauses(is_over: Callable[[], bool]) -> AsyncIterator[float]:
    """How long each beat of the running loop took."""
    over = False
    while not over:
        began = time.perf_counter()
        over = is_over()
        await asyncio.sleep(0.005)
        yield time.perf_counter() - began


def test_states_and_terminal_events_agree(engines: Callable[..., Engine]) -> None:
    engine = engines()
    good = engine.submit("digits", REQUEST)
    bad = engine.submit(watched(Counter(), failing_at(1, ValueError())), REQUEST)
    for submitted, expected in ((good, Succeeded), (bad, Failed)):
        for event in submitted:
            if isinstance(event, TERMINAL):
                assert isinstance(event, expected)
                assert submitted.state.ended
    assert Stopped in TERMINAL
