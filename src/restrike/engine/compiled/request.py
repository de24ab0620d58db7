"""One request's way through the compiled calls: which it began with, and what answered each of its forwards.

It decides nothing about code; it counts for this request and refuses what must run compiled and does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from restrike.engine.compiled.call import CallId, CompiledCall
from restrike.engine.compiled.counters import CompiledReport
from restrike.engine.compiled.modes import OFF
from restrike.engine.compiled.table import Answered, CompiledCalls
from restrike.errors import Refused
from restrike.loops.contract import StepPlan, Tensors

EXACT = "the request is exact"


@dataclass(kw_only=True)
class RequestCompiled:
    """Answers the forwards of one request, by the calls that were armed when its first step began."""

    table: CompiledCalls
    exact: bool = False
    _calls: tuple[CompiledCall, ...] | None = field(default=None, init=False)
    _cells: Counter[str] = field(default_factory=Counter, init=False)
    _eager: Counter[str] = field(default_factory=Counter, init=False)
    _step: list[CallId] = field(default_factory=list, init=False)
    _times: int = field(default=0, init=False)

    @property
    def calls(self) -> tuple[CompiledCall, ...]:
        """What was armed when this was first asked."""
        if self._calls is None:
            self._calls = () if self.exact else self.table.armed
        return self._calls

    def check(self) -> None:
        """Raise Refused when the request must run compiled and nothing could answer it."""
        if self.table.mode == "require" and (self.exact or not self.table.armed):
            self._demand(EXACT if self.exact else "no cell is armed")

    def begin_step(self) -> None:
        """A step is about to be executed: by a graph, or by itself."""
        self._times = 0
        self._step.clear()

    def begin_run(self) -> None:
        """The step runs by itself: the first time for the request, then only to prove a graph of it."""
        self._times += 1

    @property
    def on_trial(self) -> bool:
        """Whether what runs now is no forward of the request: its step has run before."""
        return self._times > 1

    @property
    def ran(self) -> tuple[CallId, ...] | None:
        """The calls that answered in the step as it ran by itself; None when it did not."""
        return tuple(self._step) if self._times else None

    def note(self, found: Answered | str) -> None:
        """Count a forward of this request, which may have run together with others'; none that is a trial.

        Raises:
            Refused: the request must run compiled, and this forward did not.
        """
        if isinstance(found, str) and self.table.mode == "require":
            self._demand(found)
        if self.on_trial:
            return
        if isinstance(found, Answered):
            self._cells[found.id.key] += 1
            self._step.append(found.id)
        else:
            self._eager[found] += 1

    def replayed(self, answers: Sequence[CallId]) -> None:
        """Count the forwards within a step that a captured graph answered."""
        self._cells.update(each.key for each in answers)

    def report(self) -> CompiledReport:
        """The counts so far."""
        return CompiledReport(cells=dict(sorted(self._cells.items())), eager=dict(self._eager))

    def notices(self) -> tuple[str, ...]:
        """What a person should know: cells that are refused, and forwards that none answered, told once."""
        if self.table.mode == OFF:
            return ()
        told = list(self.table.told())
        reasons = {reason: count for reason, count in self._eager.items() if self._is_news(reason)}
        if reasons:
            told.append(self.report().told(reasons))
        return tuple(told)

    def _is_news(self, reason: str) -> bool:
        """Whether anybody expects cells to answer, and was not told of this reason before."""
        return bool(self.table.asked or self.calls) and self.table.tell_once(reason)

    def _demand(self, reason: str) -> None:
        table = self.table
        others = (line for line in table.unarmed() if line.partition(": ")[2] not in reason)
        told = "; ".join((reason, *others, *([table.remedy] if table.remedy else [])))
        raise Refused(f"card '{table.card}' must run compiled, and cannot: {told}")


def forward_for(requests: Sequence[RequestCompiled], plan: StepPlan, module: Any, inputs: Tensors) -> Tensor:
    """Answer one forward of one request, or of several whose steps run as one: compiled, else eagerly."""
    if not requests or requests[0].table.mode == OFF:
        return plan.call(module, inputs)
    found = _found(requests, plan, module, inputs)
    if not requests[0].on_trial:
        _count(requests[0].table, found)
    for request in requests:
        request.note(found)
    return found.output if isinstance(found, Answered) else plan.call(module, inputs)


def _count(table: CompiledCalls, found: Answered | str) -> None:
    if isinstance(found, Answered):
        table.count((found.id,))
    else:
        table.tally.eager(found)


def _found(
    requests: Sequence[RequestCompiled], plan: StepPlan, module: Any, inputs: Tensors
) -> Answered | str:
    if any(request.exact for request in requests):
        return EXACT
    calls = requests[0].calls
    if any(request.calls != calls for request in requests[1:]):
        return "requests that began with different cells run as one"
    return requests[0].table.answer(calls, plan, module, inputs)


def marked(requests: Sequence[RequestCompiled], plan: StepPlan) -> StepPlan:
    """The plan with the cells that can answer it in its structure, so that no graph of other code replays."""
    if not requests or not (calls := requests[0].calls):
        return plan
    keys = tuple(call.key for call in requests[0].table.live(calls) if call.component == plan.component)
    return replace(plan, structure=(*plan.structure, "cells", *keys)) if keys else plan


def settle(requests: Sequence[RequestCompiled], plan: StepPlan, *, may_replay: bool) -> None:
    """After a step: remember which cells answered in it, or count them again for a graph that replayed it."""
    if not requests or not requests[0].calls:
        return
    table, ran = requests[0].table, requests[0].ran
    if ran is not None or not may_replay:
        table.remember(plan, ran or ())
        return
    answers = table.remembered(plan)
    table.count(answers)
    for request in requests:
        request.replayed(answers)
