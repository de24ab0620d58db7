"""The compiled calls of a resident card: armed and disarmed while requests run, bound to its present weights.

A call that answers is bound to the very tensors that the module holds in that moment, or does not answer.
All that binds or runs does so in the device's turn.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from restrike.engine.capture.contents import Contents, ContentsMemo, submodules
from restrike.engine.capture.key import layouts
from restrike.engine.compiled.call import CallId, CompiledCall, Gap, Run, identity_of
from restrike.engine.compiled.counters import CompiledCounters, Tally
from restrike.engine.compiled.modes import OFF, Mode
from restrike.engine.compiled.opaque import Opaque
from restrike.engine.reasons import REASONS_KEPT
from restrike.errors import Refused, RestrikeError, Shortfall, typed
from restrike.loops.contract import StepPlan, Tensors

_STEPS_KEPT = 256


class AmbiguousCells(Refused):
    """Several compiled calls would answer one forward; only one may."""


@dataclass(frozen=True, kw_only=True)
class Answered:
    """A forward that compiled code answered, and which call it was."""

    output: Tensor
    id: CallId


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A call bound to a module as it is: its parts, where its weights lie, and the code that reads them."""

    call: CompiledCall
    form: tuple[object, ...]
    contents: Contents
    run: Run


@dataclass(kw_only=True)
class _Armed:
    """A call that is armed, and what it is bound to at present; nothing after a release."""

    call: CompiledCall
    form: tuple[object, ...]
    bound: Bound | None = None
    answers: int = 0


@dataclass(kw_only=True)
class CompiledCalls:
    """The table of one card."""

    card: str
    mode: Mode = OFF
    asked: bool = False
    """Whether the user asked for it by name, and so wants to hear when nothing engaged."""
    remedy: str = ""
    """What a person can do who wants a call compiled that is not."""
    _table: dict[CallId, _Armed] = field(default_factory=dict)
    _calls: tuple[CompiledCall, ...] = ()
    _dead: dict[str, str] = field(default_factory=dict)
    _told: list[str] = field(default_factory=list)
    _steps: dict[Hashable, tuple[CallId, ...]] = field(default_factory=dict)
    _reasons_told: set[str] = field(default_factory=set)
    _contents: ContentsMemo = field(default_factory=ContentsMemo)
    tally: Tally = field(default_factory=Tally)

    @property
    def armed(self) -> tuple[CompiledCall, ...]:
        """What a request that begins now may be answered by."""
        return self._calls

    @property
    def counters(self) -> CompiledCounters:
        """What was done so far."""
        return self.tally.snapshot(armed=len(self._calls))

    def explain(self) -> tuple[str, ...]:
        """One line for each call that is or was armed."""
        armed = (f"cell {each.call.label}: armed, {each.answers} forwards" for each in self._table.values())
        return (*armed, *self.unarmed())

    def unarmed(self) -> tuple[str, ...]:
        """One line for each call that is not armed, or is no more."""
        return tuple(f"cell {label}: {reason}" for label, reason in self._dead.items())

    def bind(self, call: CompiledCall, module: nn.Module) -> Bound:
        """Bind a call to a module; it answers nothing until it is armed. In the device's turn.

        Raises:
            Refused: code runs around a part of the module that a compiled call would skip.
            RestrikeError: as the call's own `bind`.
        """
        form = form_of(module)
        contents = self._contents.of(call.component, module)
        return Bound(call=call, form=form, contents=contents, run=Opaque(call.bind(module)))

    def arm(self, calls: Sequence[Bound]) -> None:
        """Let these answer the requests that begin from now on, all at once.

        A request that runs already ends with what it began with.
        """
        made = {each.call.id: _Armed(call=each.call, form=each.form, bound=each) for each in calls}
        for each in made.values():
            self._dead.pop(each.call.label, None)
        self._table = {**self._table, **made}
        self._calls = tuple(each.call for each in self._table.values())

    def tell(self, line: str) -> None:
        """Let the next request tell this to whoever asked for it."""
        self._told.append(line)

    def refused(self, label: str, reason: str, detail: str = "") -> None:
        """Count a call that is not armed, and keep the line for whoever asks, and for the next request."""
        self.tally.refused(reason)
        line = f"{reason}: {detail}" if detail else reason
        self._dead[label] = line
        self._told.append(f"cell {label} is not used, {line}")

    def live(self, calls: Sequence[CompiledCall]) -> tuple[CompiledCall, ...]:
        """Those of these that are still armed."""
        return tuple(call for call in calls if call.id in self._table)

    def tell_once(self, reason: str) -> bool:
        """Whether nobody was told of this reason yet; the next time somebody was."""
        if reason in self._reasons_told or len(self._reasons_told) >= REASONS_KEPT:
            return False
        self._reasons_told.add(reason)
        return True

    def count(self, answers: Sequence[CallId]) -> None:
        """Count forwards of requests that compiled code answered."""
        self.tally.executed(len(answers))
        for each in answers:
            if (armed := self._table.get(each)) is not None:
                armed.answers += 1

    def remember(self, plan: StepPlan, answers: Sequence[CallId]) -> None:
        """Note which calls answered in a step that ran by itself, for when a graph of it replays."""
        if len(self._steps) >= _STEPS_KEPT:
            self._steps.clear()
        self._steps[plan.component, plan.structure, layouts(plan.inputs)] = tuple(answers)

    def remembered(self, plan: StepPlan) -> tuple[CallId, ...]:
        """Which calls a graph of this step holds."""
        return self._steps.get((plan.component, plan.structure, layouts(plan.inputs)), ())

    def told(self) -> tuple[str, ...]:
        """What was refused since it was asked last."""
        told, self._told = tuple(self._told), []
        return told

    def disarm(self, component: str | None, reason: str) -> None:
        """Let the calls of a component, or all, answer nothing more, not even requests that run."""
        for each in list(self._table.values()):
            if component in (None, each.call.component):
                self._disarm(each.call, reason)

    def _disarm(self, call: CompiledCall, reason: str) -> None:
        if self._table.pop(call.id, None) is not None:
            self._calls = tuple(each.call for each in self._table.values())
            self.refused(call.label, reason)

    def release(self, component: str) -> None:
        """Let go of a component's tensors, which are about to move or go; bound anew at its next forward."""
        for each in self._table.values():
            if each.call.component == component:
                each.bound = None
        self._contents.forget(component)

    def answer(
        self, calls: Sequence[CompiledCall], plan: StepPlan, module: object, inputs: Tensors
    ) -> Answered | str:
        """The forward's answer by the one of these calls that was compiled for it, or why none answers.

        Raises:
            AmbiguousCells: several would.
            Shortfall: memory ran out, as it would have eagerly.
        """
        if reason := _hindrance(module, inputs):
            return reason
        assert isinstance(module, nn.Module)
        found = self._fitting(calls, plan, inputs)
        if isinstance(found, str):
            return found
        call, given = found
        try:
            bound = self._ready(call, module)
            if bound is None:
                return f"{call.label} was disarmed"
            output = bound.run(given)
        except Exception as error:
            return self._failed(call, error)
        return Answered(output=output, id=call.id)

    def _fitting(
        self, calls: Sequence[CompiledCall], plan: StepPlan, inputs: Tensors
    ) -> tuple[CompiledCall, Tensors] | str:
        """The one call that was compiled for these tensors, or the first gap of the nearest."""
        own = [call for call in calls if call.component == plan.component]
        if not own:
            return f"no cell is armed for '{plan.component}'"
        asked = identity_of(plan.call)
        called = [call for call in own if call.call == asked]
        if not called:
            return f"'{plan.component}' is called in another way than was compiled"
        admitted = [(call, call.admit(inputs)) for call in called]
        fitting = [(call, given) for call, given in admitted if not isinstance(given, Gap)]
        if len(fitting) > 1:
            named = " and ".join(call.label for call, _ in fitting)
            raise AmbiguousCells(f"cells {named} would both answer one forward of '{plan.component}'")
        gaps = [given for _, given in admitted if isinstance(given, Gap)]
        return fitting[0] if fitting else max(gaps, key=lambda gap: gap.place).text

    def _ready(self, call: CompiledCall, module: nn.Module) -> Bound | None:
        """The call bound to what the module holds now; None for one that was disarmed."""
        armed = self._table.get(call.id)
        if armed is None:
            return None
        now = self._contents.of(call.component, module)
        if armed.bound is None or (armed.bound.contents is not now and armed.bound.contents != now):
            # First let go of the old weights: two sets may not fit.
            armed.bound = None
            bound = self._bound_anew(call, module)
            if bound.form != armed.form:
                raise Refused("the module has other parts or modes than those that it was armed for")
            armed.bound = bound
        return armed.bound

    def _bound_anew(self, call: CompiledCall, module: nn.Module) -> Bound:
        """The call bound to other weights than before; what goes wrong is theirs, and not its code's."""
        try:
            return self.bind(call, module)
        except RestrikeError:
            raise
        except Exception as error:
            raise typed(error) from error

    def _failed(self, call: CompiledCall, error: Exception) -> str:
        """Disarm a call that raised, for good; memory that ran out is no fault of its code."""
        failure = typed(error)
        if isinstance(failure, Shortfall):
            raise failure from error
        reason = failure.message if isinstance(error, RestrikeError) else f"it failed ({failure.message})"
        self._disarm(call, reason)
        if not isinstance(error, RestrikeError):
            call.failed(reason)
        return f"{call.label} was disarmed: {reason}"


def form_of(module: nn.Module) -> tuple[object, ...]:
    """The parts of a module by place, kind and mode.

    Raises:
        Refused: hooks, or a forward set on an instance, run around a part; compiled code would skip them.
    """
    found: list[object] = []
    for prefix, part in submodules(module):
        if part._forward_hooks or part._forward_pre_hooks or "forward" in part.__dict__:
            raise Refused(f"code of its own runs around '{prefix.rstrip('.') or type(part).__name__}'")
        found.append((prefix, type(part), part.training))
    return tuple(found)


def _hindrance(module: object, inputs: Tensors) -> str | None:
    """Why no compiled call could answer, whatever it was compiled for."""
    if not isinstance(module, nn.Module):
        return "the component is no torch module"
    if torch.is_grad_enabled():
        return "gradients are on"
    device = next(iter(inputs.values())).device.type
    return "autocast is on" if torch.is_autocast_enabled(device) else None
