"""How a signature comes to a graph: one step is watched, the next captured and proved, the third confirms it.

At each of these the step's eager outputs are what the request gets; whatever goes wrong with the graph, they
are right, everything is freed, and the signature keeps the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from restrike.engine.capture.backend import Backend, Step, Uncapturable
from restrike.engine.capture.buffers import StaticInputs
from restrike.engine.capture.captured import CapturedStep
from restrike.engine.capture.contents import named_tensors
from restrike.engine.capture.counters import PROVING, WARMING, Break
from restrike.engine.capture.entry import REMEDY, Entry
from restrike.engine.capture.limits import CaptureLimits
from restrike.engine.capture.proof import difference, perturbed
from restrike.engine.capture.timing import Pair, measured
from restrike.engine.capture.trace import Inspection, Trace
from restrike.loops.contract import StepPlan, Tensors

# Warm-up, capture, two replays and two eager runs, with something to spare.
STEPS_A_CAPTURE = 8


class _OverBudget(Exception):
    """It would cost more than the limits allow."""


class _NotFaster(Exception):
    """It is right, and does not pay."""


@dataclass(kw_only=True)
class Making:
    """One entry that has no armed graph yet.

    `make_room` lets other graphs go until the given bytes fit, or says why they never can.
    """

    backend: Backend
    limits: CaptureLimits
    entry: Entry
    make_room: Callable[[int], str | None]

    def advance(self, plan: StepPlan, module: nn.Module, step: Step) -> tuple[Tensors, Break]:
        """The step's eager outputs, and what the step was needed for."""
        if self.entry.captured is not None:
            return self._confirm(plan, step)
        if self.entry.trace is not None:
            return self._capture(plan, module, step)
        return self._warm(plan, module, step)

    def _warm(self, plan: StepPlan, module: nn.Module, step: Step) -> tuple[Tensors, Break]:
        """The first step: run it once as it is, and see what it does."""
        outputs, trace = self._inspected(plan, module, step)
        if trace is not None:
            self._trying(lambda: self._admit(trace))
            self.entry.trace = trace if self.entry.reason is None else None
        return outputs, self.entry.reason or WARMING

    def _capture(self, plan: StepPlan, module: nn.Module, step: Step) -> tuple[Tensors, Break]:
        """The second step: compare it with the first, capture, and prove on its own and on other inputs."""
        began = time.perf_counter()
        inputs = StaticInputs(plan.inputs)
        inputs.fill(plan.inputs)
        outputs, trace = self._inspected(plan, module, step)
        self.backend.synchronize()
        self.entry.step_s = time.perf_counter() - began
        if trace is not None:
            self._trying(lambda: self._proved(plan, module, step, inputs, outputs, trace))
        return outputs, self.entry.reason or PROVING

    def _confirm(self, plan: StepPlan, step: Step) -> tuple[Tensors, Break]:
        """The third step, of other tensors and another closure: the graph must follow, and be faster."""
        outputs, eager_s = self._timed(lambda: step(plan.inputs))
        self._trying(lambda: self._measured(plan, step, outputs, eager_s))
        return outputs, self.entry.reason or PROVING

    def _trying(self, work: Callable[[], None]) -> None:
        """Do what may fail without harm to the request; a failure frees everything and becomes the reason."""
        try:
            work()
        except _OverBudget as error:
            self.entry.refuse(Break(kind="over budget", detail=str(error)))
        except _NotFaster as error:
            self.entry.refuse(Break(kind="disarmed", detail=str(error)))
        except Exception as error:
            self.entry.refuse(Break(kind="blocked", detail=told(error)))

    def _inspected(self, plan: StepPlan, module: nn.Module, step: Step) -> tuple[Tensors, Trace | None]:
        """Run eagerly under inspection; without a trace, and blocked, when only the inspection fails."""
        given = {f"input '{name}'": each for name, each in plan.inputs.items()}
        weights = {f"'{plan.component}.{name}'": each for name, each in named_tensors(module).items()}
        inspection = Inspection(given | weights)
        try:
            with inspection:
                outputs = step(plan.inputs)
        except Exception as error:
            outputs = step(plan.inputs)  # raises what is the step's own
            self.entry.refuse(Break(kind="blocked", detail=f"it cannot be watched: {told(error)}"))
            return outputs, None
        return outputs, inspection.trace()

    def _admit(self, trace: Trace) -> None:
        if trace.faults:
            raise Uncapturable(trace.faults[0])

    def _proved(
        self,
        plan: StepPlan,
        module: nn.Module,
        step: Step,
        inputs: StaticInputs,
        outputs: Tensors,
        trace: Trace,
    ) -> None:
        """Capture and prove; the entry holds the graph only when both held."""
        self._admit(trace)
        assert self.entry.trace is not None
        differs = self.entry.trace.difference(trace)
        if differs:
            raise Uncapturable(f"{differs}; {REMEDY}")
        self._unwritten(plan.inputs, inputs.tensors)
        self._affordable(inputs.bytes + self.backend.forecast_bytes(trace))
        captured = CapturedStep(self.backend, step, inputs, named_tensors(module))
        try:
            self._prove(plan, step, captured, outputs)
            self._affordable(captured.bytes)
        except BaseException:
            captured.free()
            raise
        self.entry.captured, self.entry.trace = captured, None

    def _affordable(self, needed_bytes: int) -> None:
        """Make room for a graph; raises _OverBudget."""
        forecast_s = STEPS_A_CAPTURE * self.entry.step_s
        if forecast_s > self.limits.max_capture_s:
            raise _OverBudget(
                f"capturing would take about {forecast_s:.1f} s, "
                f"where {self.limits.max_capture_s:g} s are allowed"
            )
        refused = self.make_room(needed_bytes)
        if refused:
            raise _OverBudget(refused)

    def _prove(self, plan: StepPlan, step: Step, captured: CapturedStep, outputs: Tensors) -> None:
        """Replay on the step's inputs and on others; raises Uncapturable where eager gives other bits."""
        replayed = captured.run(plan.inputs)
        captured.check_private(replayed)
        differs = difference(outputs, replayed)
        if differs:
            raise Uncapturable(f"a replay does not repeat the step: {differs}")
        captured.check_inputs(plan.inputs)
        other = perturbed(plan.inputs)
        differs = difference(step(other), captured.run(other))
        if differs:
            suspects = _unfollowed(plan, step, captured)
            raise Uncapturable(f"a replay does not follow the step to other inputs: {differs}{suspects}")

    def _unwritten(self, inputs: Tensors, before: Tensors) -> None:
        changed = difference(before, inputs)
        if changed:
            raise Uncapturable(f"the step writes into its inputs: {changed.replace('output', 'input')}")

    def _measured(self, plan: StepPlan, step: Step, outputs: Tensors, eager_s: float) -> None:
        """Arm the graph; raises Uncapturable where it departs from eager, _NotFaster when it does not pay."""
        captured = self.entry.captured
        assert captured is not None
        replayed, replay_s = self._timed(lambda: captured.run(plan.inputs))
        differs = difference(outputs, replayed)
        if differs:
            raise Uncapturable(f"a replay does not follow the next step: {differs}; {REMEDY}")
        measurement = measured(
            lambda: self._timed(lambda: step(plan.inputs)),
            lambda: self._timed(lambda: captured.run(plan.inputs)),
            seconds=self.limits.measure_s,
            first=Pair(eager_s=eager_s, replay_s=replay_s),
        )
        if measurement.speedup < self.limits.min_speedup:
            raise _NotFaster(f"not faster ({measurement}, asked for {self.limits.min_speedup:g}x)")
        self.entry.measurement = measurement

    def _timed(self, run: Callable[[], Tensors]) -> tuple[Tensors, float]:
        self.backend.synchronize()
        began = time.perf_counter()
        outputs = run()
        self.backend.synchronize()
        return outputs, time.perf_counter() - began


def _unfollowed(plan: StepPlan, step: Step, captured: CapturedStep) -> str:
    """The inputs whose change alone a replay does not follow."""
    changed = perturbed(plan.inputs)
    alone: dict[str, dict[str, Tensor]] = {
        name: {**plan.inputs, name: value} for name, value in changed.items()
    }
    names = [f"'{n}'" for n, inputs in alone.items() if difference(step(inputs), captured.run(inputs))]
    return f" (when only {', '.join(names)} changes)" if names else ""


def told(error: BaseException) -> str:
    """An error in one line; what is not ours with its type."""
    text = " ".join(str(error).split())
    return text if isinstance(error, Uncapturable) else f"{type(error).__name__}: {text}"
