"""Requests at the door and in rounds: what is reserved always returns, and nobody waits without end."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from engine.driving import bytes_of, failing_at, kinds, looped, watched
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.engine.events import (
    Event,
    Failed,
    Noticed,
    PictureFinished,
    Started,
    StepFinished,
    Stopped,
    Succeeded,
)
from restrike.engine.requests import Cancellation, StreamOptions
from restrike.engine.scheduling.door import Door
from restrike.errors import Crashed, Refused, Shortfall
from restrike.loops.denoise import DenoiseState

from .gating import Slots, gated, in_thread

REQUEST = Request(prompt="a 6", seed=31, steps=3, items=(0, 1))
EVENTS = 10
"""How many events REQUEST has."""


class TestReservations:
    """After any way out, what the gates hold is what they held before."""

    def check(self, gate: Slots, engine: Engine) -> None:
        assert gate.came == gate.left
        assert gate.inside == 0
        assert engine._door.counts == (0, 0)

    def test_success(self) -> None:
        gate = Slots(1)
        engine = gated(gate)
        seen: list[int] = []
        for event in engine.stream("digits", REQUEST):
            seen.append(gate.inside)
            assert isinstance(event, Started | Succeeded) == (gate.inside == 0), event
        assert seen == [0, *[1] * (EVENTS - 2), 0]
        self.check(gate, engine)

    @pytest.mark.parametrize("events", range(EVENTS + 1))
    def test_an_abandoned_iterator(self, events: int) -> None:
        gate = Slots(1)
        engine = gated(gate)
        stream = engine.stream("digits", REQUEST)
        for _ in range(events):
            next(stream)
        stream.close()
        self.check(gate, engine)

    @pytest.mark.parametrize("events", range(1, EVENTS + 1))
    def test_cancellation(self, events: int) -> None:
        gate, cancellation = Slots(1), Cancellation()
        engine = gated(gate)
        seen: list[Event] = []
        for event in engine.stream("digits", REQUEST, StreamOptions(cancellation=cancellation)):
            seen.append(event)
            if len(seen) == events:
                cancellation.cancel()
        assert isinstance(seen[-1], Stopped if events < EVENTS - 1 else Succeeded)
        self.check(gate, engine)

    @pytest.mark.parametrize("error", [ValueError("broken"), KeyboardInterrupt(), SystemExit()])
    @pytest.mark.parametrize("point", ["init", "next", "advance", "finalize", "abandon"])
    def test_a_fault_at_any_point_of_the_loop(self, point: str, error: BaseException) -> None:
        def fail(*_: object) -> None:
            raise error

        def broken(inner: object) -> object:
            loop = type("Broken", (), {})()
            names = ("init", "next", "advance", "finalize", "preview")
            for name in names:
                setattr(loop, name, getattr(inner, name))
            loop.abandon = lambda state: None
            setattr(loop, point, fail)
            return loop

        gate = Slots(1)
        engine, cancellation = gated(gate), Cancellation()
        stream = engine.stream(looped(broken), REQUEST, StreamOptions(cancellation=cancellation))
        with suppress(type(error)):
            for event in stream:
                if point == "abandon" and isinstance(event, StepFinished):
                    cancellation.cancel()
        self.check(gate, engine)

    def test_a_fault_in_the_denoiser(self) -> None:
        gate = Slots(1)
        engine = gated(gate)
        handle = engine.load("digits").component("transformer").register_forward_pre_hook(_raise)
        assert isinstance(list(engine.stream("digits", REQUEST))[-1], Failed)
        handle.remove()
        self.check(gate, engine)

    def test_a_door_that_forgets_to_let_out_would_be_seen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        gate = Slots(1)
        engine = gated(gate)
        monkeypatch.setattr(Door, "leave", lambda door, ticket: None)
        list(engine.stream("digits", REQUEST))
        with pytest.raises(AssertionError):
            self.check(gate, engine)


def _raise(*_: object) -> None:
    raise ValueError("broken")


class TestWaiting:
    def test_what_waited_has_the_bytes_of_what_did_not(self, engine: Engine) -> None:
        gate = Slots(1)
        together = gated(gate).generate_interleaved(
            [("digits", REQUEST), ("digits", replace(REQUEST, seed=32))]
        )
        assert gate.most == 1
        for end, seed in zip(together, (31, 32), strict=True):
            made = {each.item: each.frames_THWC.tobytes() for each in end.result().pictures}
            alone = engine.generate("digits", replace(REQUEST, seed=seed)).pictures
            assert made == {each.item: each.frames_THWC.tobytes() for each in alone}

    def test_a_request_that_waits_says_for_what_and_begins_when_it_can(self) -> None:
        engine = gated(Slots(1))
        inside, began = engine.stream("digits", REQUEST), threading.Event()
        events: list[Event] = []

        def wait() -> None:
            for event in engine.stream("digits", replace(REQUEST, items=(0,))):
                events.append(event)
                if isinstance(event, Noticed):
                    began.set()

        for _ in range(2):
            next(inside)
        thread = in_thread(wait)
        assert began.wait(30)
        assert kinds(events) == ["Started", "Noticed"]
        assert events[1] == Noticed(message="waits for one of 1 places")
        inside.close()
        thread.join(30)
        assert kinds(events)[2:] == [*["StepFinished"] * 3, "PictureFinished", "Succeeded"]
        assert isinstance(events[-1], Succeeded)
        assert events[-1].generation.notices == ()

    def test_cancelling_it_ends_the_wait(self) -> None:
        engine, cancellation = gated(Slots(1)), Cancellation()
        inside = engine.stream("digits", REQUEST)
        for _ in range(2):
            next(inside)
        events: list[Event] = []

        def wait() -> None:
            events.extend(engine.stream("digits", REQUEST, StreamOptions(cancellation=cancellation)))

        thread = in_thread(wait)
        while engine._door.counts != (1, 1):
            threading.Event().wait(0.01)
        cancellation.cancel()
        thread.join(30)
        assert kinds(events) in (["Started", "Noticed", "Stopped"], ["Started", "Stopped"])
        assert engine._door.counts == (1, 0)

    def test_two_iterators_advanced_by_one_thread_cannot_wait_for_each_other(self) -> None:
        engine = gated(Slots(1))
        first, second = engine.stream("digits", REQUEST), engine.stream("digits", REQUEST)
        for _ in range(2):
            next(first)
        last = list(second)[-1]
        assert isinstance(last, Failed)
        assert isinstance(last.error, Shortfall)
        assert "only requests that this same thread advances" in last.error.message
        assert isinstance(list(first)[-1], Succeeded)

    def test_what_can_never_be_let_in_fails_at_once_or_after_the_stall_limit(self, engine: Engine) -> None:
        refused = gated(Slots(1, refuses=Shortfall("needs 3 GB of 2 GB")))
        with pytest.raises(Shortfall, match="needs 3 GB of 2 GB"):
            refused.generate("digits", REQUEST)
        stalled = gated(Slots(0), stall_limit_s=0.05)
        with pytest.raises(Shortfall, match="nothing is running"):
            stalled.generate("digits", REQUEST)
        assert stalled._door.counts == refused._door.counts == (0, 0)


class TestOutcomes:
    def test_one_failure_costs_the_others_nothing(self, engine: Engine) -> None:
        card = watched(Counter(), failing_at(2, ValueError("broken"), item=1))
        mine, failed, unknown = engine.generate_interleaved(
            [("digits", REQUEST), (card, REQUEST), ("digits", replace(REQUEST, steps=0))]
        )
        alone = engine.generate("digits", REQUEST).pictures
        assert [each.frames_THWC.tobytes() for each in mine.result().pictures] == [
            each.frames_THWC.tobytes() for each in alone
        ]
        assert isinstance(failed.error, Crashed)
        with pytest.raises(Crashed, match="broken"):
            failed.result()
        # The picture that was finished before is kept.
        assert [each.frames_THWC.tobytes() for each in failed.pictures] == [alone[0].frames_THWC.tobytes()]
        assert failed.generation is None
        assert isinstance(unknown.error, Refused)
        assert unknown.pictures == ()


def counted(steps: list[int], index: int) -> Callable[[DenoiseState], None]:
    return lambda state: steps.append(index)


@pytest.mark.parametrize("counts", [(3, 3, 3), (2, 7, 4), (1, 9, 1)])
def test_each_round_takes_one_step_of_each(counts: tuple[int, ...]) -> None:
    order: list[int] = []
    engine = Engine(device="cpu")
    requests = [
        (watched(Counter(), counted(order, index)), Request(prompt="a 1", seed=index, steps=steps))
        for index, steps in enumerate(counts)
    ]
    engine.generate_interleaved(requests)
    expected = [index for step in range(max(counts)) for index, steps in enumerate(counts) if step < steps]
    assert order == expected


def test_metrics_count_the_executed_steps(engine: Engine) -> None:
    engine = Engine(device="cpu")
    engine.generate("digits", REQUEST)
    with pytest.raises(Crashed):
        engine.generate(watched(Counter(), failing_at(2, ValueError())), REQUEST)
    metrics = engine.metrics()
    assert dict(metrics.steps) == {"transformer": 8}
    assert dict(metrics.forwards) == {1: 8}
    assert {state.value: count for state, count in metrics.ended.items()} == {"succeeded": 1, "failed": 1}
    assert (metrics.running, metrics.waiting, metrics.alone_again) == (0, 0, 0)


def test_a_finished_picture_is_told_before_the_next_one_begins(engine: Engine) -> None:
    stream = engine.stream("digits", REQUEST)
    assert [event.picture.item for event in stream if isinstance(event, PictureFinished)] == [0, 1]
    assert bytes_of(engine, REQUEST).keys() == {0, 1}
