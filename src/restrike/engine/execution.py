"""The one place where a planned step is executed, and one picture's way through its loop.

All that changes lives in the run: the loop's state, the plan that was looked at, the extensions' memory.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from restrike.engine.extensions import ExtensionMemory, ForwardCall
from restrike.loops.contract import Abandons, Loop, LoopContext, LoopOutput, Previews, StepPlan, Tensors


def execute(plan: StepPlan, module: Any, memory: ExtensionMemory) -> Tensors:
    """Run a planned step on its denoiser."""

    def forward(branch: str, inputs: Tensors) -> Tensor:
        run = lambda: plan.call(module, inputs)  # noqa: E731
        if not memory.extensions:
            return run()
        return memory.forward(ForwardCall(plan=plan, branch=branch, inputs=inputs), run)

    return plan.compute(forward, plan.inputs)


@dataclass(kw_only=True)
class PictureRun:
    """One picture on its way: init at the first look, a step at a time, finalize exactly once.

    Models of other libraries keep scratch on their modules while they run (Wan's autoencoder does), so
    the runs of one card take turns: `turn` is held for a step, a decode or the like, never between them.
    """

    loop: Loop[Any]
    context: LoopContext
    memory: ExtensionMemory
    clock: Callable[[], float] = time.perf_counter
    turn: AbstractContextManager[Any] = field(default_factory=threading.RLock)
    _state: Any = field(default=None, init=False)
    _plan: StepPlan | None = field(default=None, init=False)
    _ended: bool = field(default=False, init=False)

    def peek(self) -> StepPlan | None:
        """The next step, the same one however often it is looked at; None when only finalize is left."""
        with self.turn:
            if self._state is None:
                with torch.inference_mode():
                    self._state = self.loop.init(self.context)
            if self._plan is None:
                self._plan = self.loop.next(self._state)
            return self._plan

    def step(self) -> float:
        """Execute the planned step; returns its seconds."""
        plan = self.peek()
        if plan is None:
            raise RuntimeError("the loop has no further step")
        with self.turn, torch.inference_mode():
            began = self.clock()
            outputs = execute(plan, self.context.component(plan.component), self.memory)
            self.loop.advance(self._state, outputs)
            seconds = self.clock() - began
        self._plan = None
        self.memory.observe(plan, outputs, seconds)
        return seconds

    def preview(self) -> Any:
        """The picture as it looks now (THWC, uint8), or None when the loop shows none."""
        if self._state is None or not isinstance(self.loop, Previews):
            return None
        with self.turn, torch.inference_mode():
            return self.loop.preview(self._state)

    def finalize(self) -> LoopOutput:
        """Decode the result; the run is over."""
        if self._ended:
            raise RuntimeError("the run is over")
        self._ended = True
        with self.turn, torch.inference_mode():
            return self.loop.finalize(self._state)

    def abandon(self) -> None:
        """Let go of what the state holds when the run ends before it is finalized."""
        if not self._ended and self._state is not None and isinstance(self.loop, Abandons):
            self.loop.abandon(self._state)
        self._ended = True
