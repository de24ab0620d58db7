"""Requests that run side by side yield the bytes that they yield alone, whatever the order of their steps."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from torch import Tensor

from restrike.cards.request import Request
from restrike.engine.builtin import NonFinite, ResidualSkip, StepTimes
from restrike.engine.engine import Engine
from restrike.engine.events import Succeeded
from restrike.engine.extensions import Extension, ForwardCall
from restrike.engine.gate import GateReport, contents, interleave_gate
from restrike.loops.contract import LoopContext, LoopOutput, StepPlan, Tensors
from restrike.loops.denoise import DenoiseLoop, DenoiseState

from .driving import bytes_of, looped

SCENARIOS: dict[str, Sequence[Request]] = {
    "euler": [Request(prompt="a 1", seed=1), Request(prompt="a 2", seed=2)],
    "one-prompt-two-seeds": [Request(prompt="a 1", seed=1), Request(prompt="a 1", seed=2)],
    "equal-requests": [Request(prompt="a 1", seed=1), Request(prompt="a 1", seed=1)],
    "sde": [Request(prompt="a 3", seed=3, solver="sde"), Request(prompt="a 4", seed=4, solver="sde")],
    "unipc": [Request(prompt="a 5", seed=5, solver="unipc"), Request(prompt="a 6", seed=5, solver="unipc")],
    "cfg": [
        Request(prompt="a 7", seed=7, guidance_mode="cfg", guidance=3),
        Request(prompt="a 8", negative_prompt="a 3", seed=8, guidance_mode="cfg", guidance=1.5),
    ],
    "batched": [
        Request(prompt="a 7", seed=7, guidance_mode="batched"),
        Request(prompt="a 8", seed=8, guidance_mode="batched", guidance=4),
    ],
    "interval": [
        Request(prompt="a 9", seed=9, guidance_mode="cfg", guidance_interval=(0.3, 0.8)),
        Request(prompt="a 0", seed=10, guidance_mode="cfg", guidance_interval=(0.0, 0.5)),
    ],
    "every": [
        Request(prompt="a 1", seed=11, guidance_mode="cfg", guidance_every=2),
        Request(prompt="a 2", seed=12, guidance_mode="batched", guidance_every=3),
    ],
    "mixed": [
        Request(prompt="a 3", seed=13, steps=3, solver="unipc", guidance_mode="cfg"),
        Request(prompt="a 4", seed=14, steps=7, solver="sde", items=(0, 3)),
        Request(prompt="a 5", seed=15, steps=5, guidance_mode="none", shift=3.0),
        Request(prompt="a 6", seed=16, steps=4, solver="unipc", guidance_mode="cfg", guidance_every=2),
    ],
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_interleaved_requests_equal_serial_ones(engine: Engine, name: str) -> None:
    report = interleave_gate(engine, "digits", SCENARIOS[name])
    assert report.holds, report.differing
    assert report.pictures == sum(len(request.items) for request in SCENARIOS[name])


def test_right_extensions_pass_the_gate() -> None:
    engine = Engine(device="cpu", extensions=(StepTimes(), ResidualSkip(threshold=0.2), NonFinite()))
    requests = [
        Request(prompt="a 1", seed=1, guidance_mode="cfg"),
        Request(prompt="a 2", seed=2, solver="sde"),
    ]
    report = interleave_gate(engine, "digits", requests)
    assert report.holds, report.differing


def test_on_an_engine_that_batches_it_holds_for_exact_requests() -> None:
    engine = Engine(device="cpu", batch_limit=4)
    exact = [replace(request, exact=True) for request in SCENARIOS["cfg"]]
    assert interleave_gate(engine, "digits", exact).holds
    # A forward of twice the batch may sum in another order: no more than that, and never before a forward.
    rounded = interleave_gate(engine, "digits", SCENARIOS["cfg"])
    assert {each.divergence.tap for each in rounded.changed} <= {"velocity"}


@pytest.mark.parametrize("order_seed", range(3))
def test_any_order_of_steps_yields_the_same_bytes(engine: Engine, order_seed: int) -> None:
    requests = SCENARIOS["mixed"]
    alone = [bytes_of(engine, request) for request in requests]
    streams = {index: engine.stream("digits", request) for index, request in enumerate(requests)}
    made: dict[int, dict[int, str]] = {}
    order = random.Random(order_seed)
    while streams:
        index = order.choice(sorted(streams))
        event = next(streams[index], None)
        if event is None:
            del streams[index]
        if isinstance(event, Succeeded):
            made[index] = {item: str(content) for item, content in contents(event.generation).items()}
    assert [made[index] for index in range(len(requests))] == alone


def test_threads_do_not_disturb_each_other(engine: Engine) -> None:
    requests = SCENARIOS["mixed"]
    alone = [bytes_of(engine, request) for request in requests]
    together: list[dict[int, str] | None] = [None] * len(requests)

    def run(index: int) -> None:
        together[index] = bytes_of(engine, requests[index])

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(requests))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


@dataclass
class KeepsStateOnItself:
    """Wrong: smooths the velocity with the last one it saw, whoever's that was."""

    name: str = "keeps-state-on-itself"
    alters: bool = True
    last: Tensor | None = None

    def begin(self) -> None:
        return None

    def intercept(self, memory: None, call: ForwardCall, forward: Callable[[], Tensor]) -> Tensor:
        velocity = forward()
        if call.plan.index == 0:
            self.last = None
        smooth = velocity if self.last is None else (velocity + self.last) / 2
        self.last = velocity
        return smooth


@dataclass
class KeepsStateOnTheModule:
    """Wrong: the same, with the last velocity written on the model's module."""

    module: Any
    name: str = "keeps-state-on-the-module"
    alters: bool = True

    def begin(self) -> None:
        return None

    def intercept(self, memory: None, call: ForwardCall, forward: Callable[[], Tensor]) -> Tensor:
        velocity = forward()
        last = getattr(self.module, "last", None) if call.plan.index > 0 else None
        self.module.last = velocity
        return velocity if last is None else (velocity + last) / 2


@dataclass
class Last:
    velocity: Tensor | None = None


@dataclass(frozen=True)
class KeepsStateInItsMemory:
    """Right: the same smoothing, with the memory that the engine gives it."""

    name: str = "keeps-state-in-its-memory"
    alters: bool = field(default=True, init=False)

    def begin(self) -> Last:
        return Last()

    def intercept(self, memory: Last, call: ForwardCall, forward: Callable[[], Tensor]) -> Tensor:
        velocity = forward()
        smooth = velocity if memory.velocity is None else (velocity + memory.velocity) / 2
        memory.velocity = velocity
        return smooth


def smoothed(extension: Extension) -> GateReport:
    """What the gate finds on an engine with this extension."""
    engine = Engine(device="cpu", extensions=(extension,))
    requests = [Request(prompt=f"a {k}", seed=k, guidance_mode="none") for k in (1, 2)]
    return interleave_gate(engine, "digits", requests)


def places(report: GateReport) -> list[tuple[str, str, str]]:
    """Which pictures changed, and where they first did."""
    return [(each.name, each.divergence.place, each.divergence.tap) for each in report.changed]


def test_the_gate_finds_extensions_that_keep_state_elsewhere(engine: Engine) -> None:
    module = Engine(device="cpu").load("digits").component("transformer")
    # The first steps smooth nothing; the second is the first that reads the neighbour's velocity.
    expected = [(f"request {index}, picture 0", "step 2 of 8", "velocity") for index in (0, 1)]
    assert places(smoothed(KeepsStateOnItself())) == expected
    assert places(smoothed(KeepsStateOnTheModule(module))) == expected
    assert smoothed(KeepsStateInItsMemory()).holds


def test_the_gate_names_each_picture_that_changed_and_where() -> None:
    report = smoothed(KeepsStateOnItself())
    assert report.differing == ("request 0, picture 0", "request 1, picture 0")
    line = str(report.changed[1])
    assert line.startswith("request 1, picture 0: step 2 of 8, tap velocity: max difference ")
    assert line.endswith(", allowed 0")


@dataclass
class KeepsLatentOnItself:
    """Wrong: a loop whose latent is its own and not its state's."""

    inner: DenoiseLoop
    latent: Tensor | None = None

    def init(self, context: LoopContext) -> DenoiseState:
        state = self.inner.init(context)
        self.latent = state.latent
        return state

    def next(self, state: DenoiseState) -> StepPlan | None:
        assert self.latent is not None
        state.latent = self.latent
        return self.inner.next(state)

    def advance(self, state: DenoiseState, outputs: Tensors) -> None:
        self.inner.advance(state, outputs)
        self.latent = state.latent

    def finalize(self, state: DenoiseState) -> LoopOutput:
        return self.inner.finalize(state)


def test_the_gate_finds_a_loop_that_keeps_state_on_itself() -> None:
    requests = SCENARIOS["euler"]
    wrong = interleave_gate(Engine(device="cpu"), looped(KeepsLatentOnItself), requests)
    # The neighbour's first latent lies where this one's second is looked for, before any forward.
    assert places(wrong)[0] == ("request 0, picture 0", "step 2 of 8", "input.latent")
    assert interleave_gate(Engine(device="cpu"), looped(lambda inner: inner), requests).holds


@dataclass(frozen=True)
class Blank:
    """Wrong: a loop that makes no frame at all, alike each time."""

    inner: DenoiseLoop

    def init(self, context: LoopContext) -> DenoiseState:
        return self.inner.init(context)

    def next(self, state: DenoiseState) -> StepPlan | None:
        return self.inner.next(state)

    def advance(self, state: DenoiseState, outputs: Tensors) -> None:
        self.inner.advance(state, outputs)

    def finalize(self, state: DenoiseState) -> LoopOutput:
        return LoopOutput(frames_THWC=self.inner.finalize(state).frames_THWC[:0])


def test_a_picture_that_is_empty_both_times_has_not_kept_its_bytes() -> None:
    report = interleave_gate(Engine(device="cpu"), looped(Blank), SCENARIOS["euler"])
    assert [str(each) for each in report.changed] == [
        f"request {index}, picture 0: result, tap frames: empty in both runs" for index in (0, 1)
    ]
