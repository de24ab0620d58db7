"""The stream of a request: its order, its end, its cancellation, its failures."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

from restrike.cards.request import Request, resolve
from restrike.engine.engine import Engine
from restrike.engine.events import (
    TERMINAL,
    Event,
    Failed,
    PictureFinished,
    PreviewReady,
    Started,
    StepFinished,
    Stopped,
    Succeeded,
)
from restrike.engine.extensions import ExtensionMemory
from restrike.engine.pictures import PictureRun
from restrike.engine.requests import Cancellation, StreamOptions
from restrike.errors import Cancelled, Crashed, Refused, RestrikeError, Shortfall
from restrike.loops.contract import Forward, LoopContext, LoopOutput, StepPlan, Tensors
from restrike.loops.denoise import DenoiseState
from restrike.models.digits.card import CARD

from .driving import WatchedLoop, bytes_of, failing_at, kinds, looped, step, watched

REQUEST = Request(prompt="a 6", seed=31, steps=4, items=(0, 1))


@pytest.fixture
def calls() -> Counter[str]:
    return Counter()


class TestOrder:
    def test_started_first_one_terminal_event_last_and_exact_counts(self, engine: Engine) -> None:
        events = list(engine.stream("digits", REQUEST))
        assert kinds(events) == [
            "Started",
            *(["StepFinished"] * 4 + ["PictureFinished"]) * 2,
            "Succeeded",
        ]
        assert events[0] == Started(card="digits", seed=31, items=(0, 1), steps=8)
        steps = [(event.item, event.step, event.total) for event in events if isinstance(event, StepFinished)]
        assert steps == [(item, step, 4) for item in (0, 1) for step in (1, 2, 3, 4)]
        assert [isinstance(event, TERMINAL) for event in events].count(True) == 1

    def test_nothing_runs_before_it_is_asked_for(self, calls: Counter[str]) -> None:
        engine = Engine(device="cpu")
        stream = engine.stream(watched(calls), REQUEST)
        assert engine.load(watched(calls)).loaded() == ()
        next(stream)
        assert calls == {}
        next(stream)
        assert calls == {"init": 1, "next": 1, "advance": 1}

    def test_components_are_built_when_they_are_needed(self) -> None:
        engine = Engine(device="cpu")
        resident, stream = engine.load("digits"), engine.stream("digits", Request(prompt="a 6", steps=2))
        loaded = [resident.loaded() for event in stream if isinstance(event, StepFinished | PictureFinished)]
        assert loaded[0] == ("text_encoder", "transformer")
        assert loaded[-1] == ("text_encoder", "transformer", "decoder")

    def test_the_asked_sigmas_are_visited(self, engine: Engine) -> None:
        sigmas = (1.0, 0.75, 0.5, 0.125)
        events = engine.stream("digits", Request(prompt="a 6", seed=1, sigmas=sigmas))
        assert [event.sigma for event in events if isinstance(event, StepFinished)] == list(sigmas)

    @pytest.mark.parametrize("steps", [1, 2, 7])
    @pytest.mark.parametrize("solver", ["euler", "sde", "unipc"])
    def test_the_asked_number_of_steps_is_executed(
        self, calls: Counter[str], steps: int, solver: str
    ) -> None:
        request = Request(prompt="a 6", seed=1, steps=steps, solver=solver)
        picture = Engine(device="cpu").generate(watched(calls), request).picture
        assert calls == {"init": 1, "next": steps + 1, "advance": steps, "finalize": 1}
        assert picture.latent is not None
        assert bool(torch.isfinite(picture.latent).all())
        assert len(picture.log_probs) == (steps - 1 if solver == "sde" else 0)

    def test_a_request_that_cannot_begin_raises_instead_of_starting(self, engine: Engine) -> None:
        with pytest.raises(Refused, match="steps 0"):
            engine.stream("digits", Request(prompt="a 6", steps=0))


class TestClosing:
    def test_it_abandons_the_running_picture_and_nothing_else(self, calls: Counter[str]) -> None:
        engine, card = Engine(device="cpu"), watched(calls)
        stream = engine.stream(card, REQUEST)
        while not isinstance(next(stream), PictureFinished):
            pass
        next(stream)
        stream.close()
        assert calls == {"init": 2, "next": 6, "advance": 5, "finalize": 1, "abandon": 1}
        assert list(stream) == []
        assert bytes_of(engine, REQUEST, card) == bytes_of(Engine(device="cpu"), REQUEST)

    @pytest.mark.parametrize("events", [0, 1])
    def test_before_the_first_step_there_is_nothing_to_abandon(
        self, calls: Counter[str], events: int
    ) -> None:
        stream = Engine(device="cpu").stream(watched(calls), REQUEST)
        for _ in range(events):
            next(stream)
        stream.close()
        assert calls == {}

    def test_a_finished_request_abandons_nothing(self, calls: Counter[str]) -> None:
        list(Engine(device="cpu").stream(watched(calls), REQUEST))
        assert calls["abandon"] == 0
        assert calls["finalize"] == 2


class TestCancellation:
    @pytest.mark.parametrize("after", range(1, 12))
    def test_at_each_event_it_stops_without_a_further_step(self, calls: Counter[str], after: int) -> None:
        cancellation = Cancellation()
        engine, events = Engine(device="cpu"), list[Event]()
        for event in engine.stream(watched(calls), REQUEST, StreamOptions(cancellation=cancellation)):
            events.append(event)
            if len(events) == after:
                cancellation.cancel()
        # The last picture's steps and its finish are events 7 to 11; once it is finished, so is the request.
        assert isinstance(events[-1], Stopped if after < 11 else Succeeded)
        assert len(events) == after + 1
        running = after not in (1, 6, 11)
        assert calls["abandon"] == (1 if running else 0)

    def test_during_a_step_that_step_is_the_last(self, calls: Counter[str]) -> None:
        cancellation = Cancellation()

        def cancel(state: DenoiseState) -> None:
            if state.index == 1:
                thread = threading.Thread(target=cancellation.cancel)
                thread.start()
                thread.join()

        stream = Engine(device="cpu").stream(
            watched(calls, cancel), REQUEST, StreamOptions(cancellation=cancellation)
        )
        assert kinds(list(stream)) == ["Started", "StepFinished", "StepFinished", "Stopped"]
        assert calls["finalize"] == 0
        assert calls["abandon"] == 1

    def test_before_it_begins_nothing_runs(self, calls: Counter[str]) -> None:
        cancellation = Cancellation()
        cancellation.cancel()
        stream = Engine(device="cpu").stream(
            watched(calls), REQUEST, StreamOptions(cancellation=cancellation)
        )
        events = list(stream)
        assert kinds(events) == ["Started", "Stopped"]
        assert isinstance(events[-1], Stopped)
        assert isinstance(events[-1].error, Cancelled)
        assert calls == {}

    def test_the_neighbour_keeps_its_bytes(self, engine: Engine) -> None:
        cancellation = Cancellation()
        stopped = engine.stream("digits", REQUEST, StreamOptions(cancellation=cancellation))
        neighbour = engine.stream("digits", replace(REQUEST, seed=32))
        events = list[Event]()
        for index, event in enumerate(neighbour):
            events.append(event)
            next(stopped, None)
            if index == 3:
                cancellation.cancel()
        assert isinstance(events[-1], Succeeded)
        latents = [picture.latent for picture in events[-1].generation.pictures]
        alone = [picture.latent for picture in engine.generate("digits", replace(REQUEST, seed=32)).pictures]
        assert all(torch.equal(one, other) for one, other in zip(latents, alone, strict=True))  # pyright: ignore[reportArgumentType]


class TestFailure:
    @pytest.mark.parametrize(
        ("error", "expected", "message"),
        [
            (ValueError("broken\nin two lines"), Crashed, "ValueError: broken in two lines"),
            (MemoryError("no room"), Shortfall, "out of memory: no room"),
            (Refused("not this one"), Refused, "not this one"),
        ],
    )
    def test_it_ends_the_stream_with_a_typed_error(
        self, calls: Counter[str], error: Exception, expected: type[RestrikeError], message: str
    ) -> None:
        card = watched(calls, failing_at(3, error, item=1))
        events = list(Engine(device="cpu").stream(card, REQUEST))
        assert kinds(events) == [
            "Started",
            *["StepFinished"] * 4,
            "PictureFinished",
            *["StepFinished"] * 2,
            "Failed",
        ]
        failed = events[-1]
        assert isinstance(failed, Failed)
        assert type(failed.error) is expected
        assert failed.error.message == message
        assert failed.error is error or failed.error.__cause__ is error
        assert calls["abandon"] == 1

    def test_pictures_that_were_finished_stay_valid(self, engine: Engine, calls: Counter[str]) -> None:
        card = watched(calls, failing_at(3, ValueError(), item=1))
        events = list(Engine(device="cpu").stream(card, REQUEST))
        finished = [event.picture for event in events if isinstance(event, PictureFinished)]
        expected = engine.generate("digits", REQUEST).picture
        assert [picture.frames_THWC.tobytes() for picture in finished] == [expected.frames_THWC.tobytes()]

    def test_generate_raises_what_made_it_fail(self, calls: Counter[str]) -> None:
        error = ValueError("broken")
        with pytest.raises(Crashed, match="ValueError: broken") as crash:
            Engine(device="cpu").generate(watched(calls, failing_at(1, error)), REQUEST)
        assert crash.value.__cause__ is error

    def test_the_neighbour_keeps_its_bytes(self, calls: Counter[str]) -> None:
        engine, card = Engine(device="cpu"), watched(calls, failing_at(3, ValueError(), item=1))
        failing, neighbour = engine.stream(card, REQUEST), engine.stream("digits", replace(REQUEST, seed=32))
        ends: dict[str, Event] = {}
        for _ in range(20):
            for name, stream in (("failing", failing), ("neighbour", neighbour)):
                ends[name] = next(stream, ends.get(name))  # pyright: ignore[reportArgumentType]
        assert isinstance(ends["failing"], Failed)
        assert isinstance(ends["neighbour"], Succeeded)
        made = [picture.frames_THWC.tobytes() for picture in ends["neighbour"].generation.pictures]
        alone = Engine(device="cpu").generate("digits", replace(REQUEST, seed=32)).pictures
        assert made == [picture.frames_THWC.tobytes() for picture in alone]

    def test_an_interrupt_passes_through_and_lets_go(self, calls: Counter[str]) -> None:
        card = watched(calls, failing_at(2, KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            list(Engine(device="cpu").stream(card, REQUEST))
        assert calls["abandon"] == 1


class TestPreviews:
    def test_there_is_none_unless_asked(self, calls: Counter[str]) -> None:
        events = list(Engine(device="cpu").stream(watched(calls), REQUEST))
        assert "PreviewReady" not in kinds(events)
        assert calls["preview"] == 0

    @pytest.mark.parametrize(("every", "steps"), [(1, [1, 2, 3, 4]), (2, [2, 4]), (3, [3]), (9, [])])
    def test_one_comes_after_every_nth_step(self, engine: Engine, every: int, steps: list[int]) -> None:
        events = list(engine.stream("digits", REQUEST, StreamOptions(preview_every=every)))
        previews = [(event.item, event.step) for event in events if isinstance(event, PreviewReady)]
        assert previews == [(item, step) for item in (0, 1) for step in steps]

    def test_they_approach_the_picture_and_do_not_change_it(self, engine: Engine) -> None:
        events = list(engine.stream("digits", replace(REQUEST, items=(0,)), StreamOptions(preview_every=1)))
        shown = [event.frames_THWC.astype(float) for event in events if isinstance(event, PreviewReady)]
        final = engine.generate("digits", replace(REQUEST, items=(0,))).picture.frames_THWC
        assert isinstance(events[-1], Succeeded)
        assert events[-1].generation.picture.frames_THWC.tobytes() == final.tobytes()
        distances = [float(np.abs(frames - final).mean()) for frames in shown]
        assert distances == sorted(distances, reverse=True)
        assert distances[-1] == 0


def run_of(engine: Engine, loop: WatchedLoop) -> PictureRun:
    """One picture on its way, without the engine's stream around it."""
    resident = engine.load("digits")
    _, arguments = resolve(CARD, replace(REQUEST, solver="unipc", guidance_mode="cfg", guidance_every=2))
    context = LoopContext(arguments=arguments, item=0, device=resident.device, component=resident.component)
    return PictureRun(loop=loop, context=context, memory=ExtensionMemory(extensions=()))


class TestExecution:
    def test_the_plan_is_kept_between_looks_and_finalize_runs_once(
        self, engine: Engine, calls: Counter[str]
    ) -> None:
        spec = CARD.loops[0]
        run = run_of(engine, WatchedLoop(engine.load("digits").loop(spec), calls))
        while (plan := run.peek()) is not None:
            assert run.peek() is plan
            step(run)
        assert calls["next"] == 5
        assert run.peek() is None
        run.finalize()
        with pytest.raises(RuntimeError, match="over"):
            run.finalize()
        run.abandon()
        assert (calls["finalize"], calls["abandon"], calls["init"]) == (1, 0, 1)


@dataclass(frozen=True)
class Counting:
    """A loop of four methods and nothing else, unlike any that the engine was written with."""

    def init(self, context: LoopContext) -> list[int]:
        return [context.arguments.steps]

    def next(self, state: list[int]) -> StepPlan | None:
        def compute(forward: Forward, inputs: Tensors) -> Tensors:
            return {"left": inputs["left"] - forward("only", inputs)}

        def call(module: Callable[..., Any], inputs: Tensors) -> torch.Tensor:
            return torch.ones(())

        if state[-1] == 0:
            return None
        return StepPlan(
            index=len(state) - 1,
            total=state[0],
            sigma=0.0,
            component="decoder",
            structure=("counting",),
            inputs={"left": torch.tensor(state[-1])},
            call=call,
            compute=compute,
        )

    def advance(self, state: list[int], outputs: Tensors) -> None:
        state.append(int(outputs["left"]))

    def finalize(self, state: list[int]) -> LoopOutput:
        return LoopOutput(frames_THWC=np.full((1, 2, 2, 3), len(state), dtype=np.uint8))


def test_the_engine_drives_a_loop_that_it_has_never_seen() -> None:
    card = looped(lambda inner: Counting())
    events = list(
        Engine(device="cpu").stream(card, Request(prompt="a 1", steps=3), StreamOptions(preview_every=1))
    )
    assert kinds(events) == ["Started", *["StepFinished"] * 3, "PictureFinished", "Succeeded"]
    assert isinstance(events[-1], Succeeded)
    assert events[-1].generation.picture.frames_THWC.max() == 4
