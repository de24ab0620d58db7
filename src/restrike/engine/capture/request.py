"""One request's way through the capturer: the policy of its loop, and what became of each of its steps.

It decides nothing about graphs; it counts for this request and refuses what its card declares it must have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from restrike.cards.card import LoopSpec
from restrike.engine.capture.backend import Step
from restrike.engine.capture.capturer import Capturer
from restrike.engine.capture.counters import DISARMED, Break, CaptureReport
from restrike.errors import Refused
from restrike.loops.contract import StepPlan, Tensors


@dataclass(kw_only=True)
class RequestCapture:
    """Runs the steps of one request, and counts what became of them."""

    capturer: Capturer
    card: str
    spec: LoopSpec
    _replays: int = field(default=0, init=False)
    _breaks: Counter[Break] = field(default_factory=Counter, init=False)
    _disarmed: dict[Hashable, Break] = field(default_factory=dict, init=False)
    """Of the forms of steps that this request met, those whose graph does not pay."""

    def check(self) -> None:
        """Raise Refused when the loop must be captured and nothing here could."""
        if self.capturer.backend is None:
            self._demand(self.capturer.absent)

    def run(
        self, plan: StepPlan, module: Any, step: Step, answered: Break | None
    ) -> tuple[Tensors, Break | None]:
        """Execute a planned step, and say why it ran eagerly; `answered` when extensions stand between.

        Raises:
            Refused: the loop must be captured, and this step cannot be.
        """
        reason = answered or self._policy()
        if reason is not None:
            return self._eagerly(plan, step, reason)
        # To look a step up costs time, and a graph that does not pay gives none back: once a request is
        # enough. Whatever has changed meanwhile, eager is right.
        form = _form(plan)
        if form in self._disarmed:
            return self._eagerly(plan, step, self._disarmed[form])
        stepped = self.capturer.run((self.card, self.spec.name), plan, module, step)
        if stepped.broke is not None and stepped.broke.kind == DISARMED:
            self._disarmed[form] = stepped.broke
        return stepped.outputs, stepped.broke

    def _eagerly(self, plan: StepPlan, step: Step, reason: Break) -> tuple[Tensors, Break]:
        self._demand(reason)
        self.capturer.broke(reason)
        return step(plan.inputs), reason

    def note(self, broke: Break | None) -> None:
        """Count a step of this request, which may have run together with others.

        Raises:
            Refused: the loop must be captured, and this step was not and never will be.
        """
        if broke is None:
            self._replays += 1
            return
        self._breaks[broke] += 1
        if not broke.passing:
            self._demand(broke)

    def report(self) -> CaptureReport:
        """The counts so far."""
        backend, held = self.capturer.backend, self.capturer.counters
        return CaptureReport(
            backend=backend.name if backend else None,
            replays=self._replays,
            eager_breaks={str(reason): count for reason, count in self._breaks.items()},
            graphs=held.graphs,
            graph_bytes=held.bytes,
        )

    def notices(self) -> tuple[str, ...]:
        """What a person who asked for a backend by name should know; nothing when it did what it could."""
        backend = self.capturer.backend
        engaged = self._replays and all(reason.passing for reason in self._breaks)
        if backend is None or not self.capturer.named or engaged or not self._breaks:
            return ()
        return (self.report().told,)

    def _policy(self) -> Break | None:
        if self.spec.opaque:
            return Break(kind="not capturable", detail="the card's steps are opaque")
        if self.capturer.backend is None:
            return self.capturer.absent
        return Break(kind="off", detail="the loop says so") if self.spec.capture == "off" else None

    def _demand(self, reason: Break) -> None:
        if self.spec.capture == "required":
            raise Refused(
                f"card '{self.card}' must be captured in loop '{self.spec.name}', and cannot be: {reason}"
            )


def _form(plan: StepPlan) -> Hashable:
    """What tells the steps of one request apart for the capturer; cheap, for it is asked at each."""
    layout = tuple([(value.shape, value.stride()) for value in plan.inputs.values()])
    return plan.component, plan.structure, layout


def run_for(
    captures: Sequence[RequestCapture], plan: StepPlan, module: Any, step: Step, answered: Break | None
) -> Tensors:
    """Execute one step for one request, or for several whose steps run as one."""
    outputs, broke = captures[0].run(plan, module, step, answered)
    for capture in captures:
        capture.note(broke)
    return outputs
