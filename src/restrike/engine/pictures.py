"""One picture's way through its loop, from the first look to the decoded result.

All that changes lives in the run: the loop's state, the plan that was looked at, the extensions' memory. It
plans and takes results; it never executes a step.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from restrike.engine.extensions import Ender, ExtensionMemory
from restrike.engine.memory.peaks import DECODE, ENCODE, PREVIEW
from restrike.errors import Refused
from restrike.loops.contract import (
    Abandons,
    Concludes,
    Loop,
    LoopContext,
    LoopOutput,
    Previews,
    StepPlan,
    Tensors,
)


@dataclass(kw_only=True)
class PictureRun:
    """One picture on its way: init at the first look, a step at a time, finalize exactly once.

    Models of other libraries keep scratch on their modules while they run (Wan's autoencoder does), so
    the runs of one device take turns: `turn` is held for a step, a decode or the like, never between them.
    `phase` is entered around what computes, by its name, so that there is memory for it.
    """

    loop: Loop[Any]
    context: LoopContext
    memory: ExtensionMemory
    turn: AbstractContextManager[Any] = field(default_factory=threading.RLock)
    phase: Callable[[str], AbstractContextManager[Any]] = nullcontext
    runs_ahead: bool = False
    """Whether the model may run, to its result even, while its next step is planned."""
    _state: Any = field(default=None, init=False)
    _plan: StepPlan | None = field(default=None, init=False)
    _taken: int = field(default=0, init=False)
    _ended: bool = field(default=False, init=False)

    def peek(self) -> StepPlan | None:
        """The next step, the same one however often it is looked at; None when only finalize is left."""
        with self.turn:
            if self._state is None:
                with self.phase(ENCODE), torch.inference_mode():
                    self._state = self.loop.init(self.context)
            if self._plan is None:
                ahead = self.phase(f"after step {self._taken}") if self.runs_ahead else nullcontext()
                with ahead:
                    self._plan = self.loop.next(self._state)
            return self._plan

    def take(self, outputs: Tensors, seconds: float) -> None:
        """Take what the planned step computed, in `seconds`, show it to the observers and ask the enders."""
        plan = self._plan
        if plan is None:
            raise RuntimeError("the loop has no further step")
        with self.turn, torch.inference_mode():
            self.loop.advance(self._state, outputs)
        self._plan = None
        self._taken += 1
        self.memory.observe(plan, outputs, seconds)
        if self.memory.enough(plan, outputs):
            self._conclude()

    def _conclude(self) -> None:
        if not isinstance(self.loop, Concludes):
            ending = next(each.name for each in self.memory.extensions if isinstance(each, Ender))
            raise Refused(f"extension '{ending}' cannot end this card's pictures early; leave it out")
        with self.turn, torch.inference_mode():
            self.loop.conclude(self._state)

    def preview(self) -> Any:
        """The picture as it looks now (THWC, uint8), or None when the loop shows none."""
        if self._state is None or not isinstance(self.loop, Previews):
            return None
        with self.turn, self.phase(PREVIEW), torch.inference_mode():
            return self.loop.preview(self._state)

    def finalize(self) -> LoopOutput:
        """Decode the result; the run is over."""
        if self._ended:
            raise RuntimeError("the run is over")
        self._ended = True
        with self.turn, self.phase(DECODE), torch.inference_mode():
            return self.loop.finalize(self._state)

    def abandon(self) -> None:
        """Let go of what the state holds when the run ends before it is finalized."""
        if not self._ended and self._state is not None and isinstance(self.loop, Abandons):
            self.loop.abandon(self._state)
        self._ended = True
