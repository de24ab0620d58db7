"""Seven families, each generated through the engine and compared with its own direct call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import FluxPipeline

from restrike.cards.card import ModelCard
from restrike.cards.request import Request
from restrike.engine.builtin import ResidualSkip, StepTimes
from restrike.engine.engine import Engine
from restrike.engine.events import Event, PreviewReady, Started, StepFinished, Stopped, Succeeded
from restrike.engine.requests import Cancellation, StreamOptions
from restrike.errors import Crashed, Refused
from restrike.loops.contract import StepPlan
from restrike.loops.noise import item_generator
from restrike.models.pipeline import loop
from restrike.models.pipeline.scope import request_scoped

from .conftest import call_threads
from .families import FAMILIES

STEPS = 4
EVERY = pytest.mark.parametrize("name", FAMILIES)


def asked(name: str, **changes: Any) -> Request:
    return Request(
        **{"prompt": "a red circle", "seed": 7, "steps": STEPS, **FAMILIES[name].request, **changes}
    )


def direct(pipeline: Any, name: str, item: int = 0) -> np.ndarray[Any, Any]:
    """The family's own call, as THWC uint8."""
    output = pipeline(
        prompt="a red circle",
        num_inference_steps=STEPS,
        generator=item_generator(7, item),
        **FAMILIES[name].call,
    )
    shown = output[0][0]
    if isinstance(shown, np.ndarray):
        return (shown * 255).round().astype(np.uint8)
    return np.stack([np.asarray(frame) for frame in (shown if isinstance(shown, list) else [shown])])


@EVERY
def test_it_equals_the_direct_call(
    name: str,
    pipeline_engine: Engine,
    card_of: Callable[[str], ModelCard],
    reference_of: Callable[[str], Any],
) -> None:
    made = pipeline_engine.generate(card_of(name), asked(name)).picture
    np.testing.assert_array_equal(made.frames_THWC, direct(reference_of(name), name))
    assert made.frames_THWC.std() > 1, "a picture of one colour would equal anything"
    assert made.fps == (25.0 if name == "ltx" else 16.0)


@EVERY
def test_it_reports_each_step_and_shows_it(
    name: str, pipeline_engine: Engine, card_of: Callable[[str], ModelCard]
) -> None:
    events = list(pipeline_engine.stream(card_of(name), asked(name), StreamOptions(preview_every=1)))
    steps = [event for event in events if isinstance(event, StepFinished)]
    assert [(step.step, step.total) for step in steps] == [(n, STEPS) for n in range(1, STEPS + 1)]
    sigmas = [step.sigma for step in steps]
    assert 1 >= sigmas[0] > 0.9
    assert sigmas == sorted(sigmas, reverse=True)
    previews = [event for event in events if isinstance(event, PreviewReady)]
    # The latent of an LTX clip is a list of tokens: which of them are neighbours only the pipeline knows.
    assert len(previews) == (0 if name == "ltx" else STEPS)
    assert all(p.frames_THWC.dtype == np.uint8 and p.frames_THWC.shape[-1] == 3 for p in previews)


@EVERY
def test_a_picture_is_made_again_alone(
    name: str,
    pipeline_engine: Engine,
    card_of: Callable[[str], ModelCard],
    reference_of: Callable[[str], Any],
) -> None:
    batch = pipeline_engine.generate(card_of(name), asked(name, items=(0, 1))).pictures
    alone = pipeline_engine.generate(card_of(name), asked(name, items=(1,))).picture
    np.testing.assert_array_equal(batch[1].frames_THWC, alone.frames_THWC)
    np.testing.assert_array_equal(alone.frames_THWC, direct(reference_of(name), name, item=1))
    assert not np.array_equal(batch[0].frames_THWC, alone.frames_THWC)


def interleaved_and_serial(
    engine: Engine, card: ModelCard, name: str
) -> list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    requests = [
        (card, asked(name)),
        (card, asked(name, prompt="blue", seed=8, steps=STEPS + 2, guidance=2.5)),
    ]
    together = engine.generate_interleaved(requests)
    apart = [engine.generate(*request) for request in requests]
    return [
        (a.result().picture.frames_THWC, b.picture.frames_THWC) for a, b in zip(together, apart, strict=True)
    ]


@EVERY
def test_interleaved_requests_equal_serial_ones(
    name: str, pipeline_engine: Engine, card_of: Callable[[str], ModelCard]
) -> None:
    for together, apart in interleaved_and_serial(pipeline_engine, card_of(name), name):
        np.testing.assert_array_equal(together, apart)


@EVERY
def test_a_step_that_was_announced_is_planned_while_the_call_stands_still(
    name: str,
    pipeline_engine: Engine,
    card_of: Callable[[str], ModelCard],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asleep, plan, go_on = [0], loop.PipelineLoop.next, loop.PipelineRun.go_on

    def planned(self: loop.PipelineLoop, state: loop.PipelineRun) -> StepPlan | None:
        with monkeypatch.context() as still:
            if state.done < state.total:
                still.setattr(loop.PipelineRun, "go_on", lambda state: pytest.fail("the call ran on"))
                asleep[0] += 1
            return plan(self, state)

    monkeypatch.setattr(loop.PipelineLoop, "next", planned)
    assert pipeline_engine.generate(card_of(name), asked(name)).pictures
    assert asleep == [STEPS]
    assert loop.PipelineRun.go_on is go_on


@EVERY
def test_a_shared_scheduler_breaks_interleaving(
    name: str,
    pipeline_engine: Engine,
    card_of: Callable[[str], ModelCard],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The negative control: the two requests have all their own but the scheduler."""

    def with_shared_scheduler(pipeline: Any) -> Any:
        own = request_scoped(pipeline)
        vars(own)["scheduler"] = pipeline.scheduler
        return own

    monkeypatch.setattr(loop, "request_scoped", with_shared_scheduler)
    try:
        pairs = interleaved_and_serial(pipeline_engine, card_of(name), name)
    except Crashed:
        return  # the other request's step counter led out of this one's schedule
    assert not all(np.array_equal(together, apart) for together, apart in pairs)


@EVERY
def test_cancel_stops_within_a_step(
    name: str, pipeline_engine: Engine, card_of: Callable[[str], ModelCard]
) -> None:
    cancellation = Cancellation()
    events: list[Event] = []
    for event in pipeline_engine.stream(card_of(name), asked(name), StreamOptions(cancellation=cancellation)):
        events.append(event)
        if isinstance(event, StepFinished) and event.step == 2:
            assert call_threads() == ["pipeline-0"]
            cancellation.cancel()
    assert sum(isinstance(event, StepFinished) for event in events) == 2
    assert isinstance(events[-1], Stopped)
    assert call_threads() == []


def test_closing_a_stream_leaves_no_thread(
    pipeline_engine: Engine, card_of: Callable[[str], ModelCard]
) -> None:
    stream = pipeline_engine.stream(card_of("sd"), asked("sd"))
    while not isinstance(next(stream), StepFinished):
        pass
    assert call_threads() == ["pipeline-0"]
    stream.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert call_threads() == []


def test_what_is_left_open_is_the_pipelines_own(
    pipeline_engine: Engine, card_of: Callable[[str], ModelCard], reference_of: Callable[[str], Any]
) -> None:
    request = Request(prompt="a red circle", seed=7, call={"guidance_rescale": 0.5})
    events = list(pipeline_engine.stream(card_of("sd"), request))
    assert isinstance(events[0], Started)
    assert events[0].steps == 0
    assert isinstance(events[-1], Succeeded)
    picture = events[-1].generation.picture
    own = reference_of("sd")(
        prompt="a red circle", generator=torch.Generator().manual_seed(7), guidance_rescale=0.5
    )
    np.testing.assert_array_equal(picture.frames_THWC[0], np.asarray(own.images[0]))
    assert sum(isinstance(event, StepFinished) for event in events) == 50
    assert picture.provenance.arguments == {"prompt": "a red circle", "call": {"guidance_rescale": 0.5}}


def test_it_holds_in_half_precision(
    card_of: Callable[[str], ModelCard], folder_of: Callable[[str], Path]
) -> None:
    engine = Engine(device="cpu", precision="bfloat16")
    made = engine.generate(card_of("flux"), asked("flux")).picture
    reference = FluxPipeline.from_pretrained(folder_of("flux"), dtype=torch.bfloat16)
    reference.set_progress_bar_config(disable=True)
    np.testing.assert_array_equal(made.frames_THWC, direct(reference, "flux"))


def test_an_interceptor_is_refused_and_an_observer_sees_every_step(
    card_of: Callable[[str], ModelCard],
) -> None:
    with pytest.raises(Refused, match=r"extension .residual-skip. cannot act on card .pipeline."):
        Engine(device="cpu", extensions=(ResidualSkip(),)).generate(card_of("sd"), asked("sd"))
    watched = Engine(device="cpu", extensions=(StepTimes(),)).generate(card_of("sd"), asked("sd"))
    assert watched.notices[0].startswith(f"step-times: pipeline: {STEPS} steps")


def test_no_prompt_brings_a_graph_for_no_step_is_captured(card_of: Callable[[str], ModelCard]) -> None:
    captured = Engine(device="cpu", capture="tape")
    for prompt in ("a", "a red circle " * 9):
        made = captured.generate(card_of("sd"), asked("sd", prompt=prompt))
        assert made.capture.eager_breaks == {"not capturable: the card's steps are opaque": STEPS}
        assert (made.capture.graphs, made.capture.replays) == (0, 0)
