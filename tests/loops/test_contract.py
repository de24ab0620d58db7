from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from torch import nn

from restrike.engine.extensions import ExtensionMemory
from restrike.engine.pictures import PictureRun
from restrike.loops.contract import Forward, LoopContext, LoopOutput, StepPlan, Tensors

from .tiny import Driver, step


@dataclass
class Count:
    """The state: a number that is doubled, and how often each method was called."""

    value: torch.Tensor
    steps: int = 0
    planned: int = 0
    finalized: int = 0


@dataclass(frozen=True)
class Doubling:
    """A loop that the engine has never seen, with the four methods and nothing else."""

    total: int
    states: list[Count] = field(default_factory=list)

    def init(self, context: LoopContext) -> Count:
        self.states.append(Count(value=torch.tensor(float(context.item))))
        return self.states[-1]

    def next(self, state: Count) -> StepPlan | None:
        if state.steps == self.total:
            return None
        state.planned += 1
        return StepPlan(
            index=state.steps,
            total=self.total,
            sigma=0.0,
            component="double",
            structure=("double",),
            inputs={"value": state.value},
            call=lambda module, inputs: module(inputs["value"]),
            compute=double,
        )

    def advance(self, state: Count, outputs: Tensors) -> None:
        state.value = outputs["value"]
        state.steps += 1

    def finalize(self, state: Count) -> LoopOutput:
        state.finalized += 1
        return LoopOutput(frames_THWC=np.full((1, 1, 1, 3), int(state.value), np.uint8))


def double(forward: Forward, inputs: Tensors) -> Tensors:
    return {"value": forward("only", inputs)}


class Double(nn.Module):
    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return 2 * value


def started(loop: Doubling) -> PictureRun:
    driver = Driver(loop=loop, modules={"double": Double()})
    return PictureRun(loop=loop, context=driver.context(item=3), memory=ExtensionMemory(extensions=()))


def test_the_four_methods_are_enough() -> None:
    run = started(Doubling(total=4))
    while run.peek() is not None:
        step(run)
    assert run.preview() is None
    assert run.finalize().frames_THWC.flatten().tolist() == [48] * 3


def test_a_plan_is_made_once_a_step_however_often_it_is_looked_at() -> None:
    loop = Doubling(total=3)
    run = started(loop)
    while (plan := run.peek()) is not None:
        assert run.peek() is run.peek() is plan
        step(run)
    assert loop.states[0].planned == 3


def test_finalize_runs_exactly_once() -> None:
    loop = Doubling(total=1)
    run = started(loop)
    step(run)
    assert run.peek() is run.peek() is None
    run.finalize()
    with pytest.raises(RuntimeError, match="the run is over"):
        run.finalize()
    run.abandon()
    assert loop.states[0].finalized == 1


def test_a_finished_loop_has_no_further_step() -> None:
    run = started(Doubling(total=0))
    with pytest.raises(RuntimeError, match="no further step"):
        step(run)
