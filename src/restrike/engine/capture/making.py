"""How a signature comes to a graph: one step warms up, the next is captured and proved, the third confirms.

At each of these the step's eager outputs are what the request gets; whatever goes wrong with the graph, they
are right, everything is freed, and the signature keeps the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

from restrike.engine.capture.backend import Backend, Step, Uncapturable
from restrike.engine.capture.buffers import StaticInputs
from restrike.engine.capture.captured import CapturedStep
from restrike.engine.capture.contents import named_tensors
from restrike.engine.capture.counters import DISARMED, PROVING, WARMING, Break
from restrike.engine.capture.entry import REMEDY, Entry
from restrike.engine.capture.limits import CaptureLimits
from restrike.engine.capture.proof import difference, perturbed
from restrike.engine.capture.timing import Pair, measured
from restrike.engine.capture.trace import Inspection, Trace
from restrike.errors import RestrikeError
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
            return self._confirm(plan, module, step)
        if self.entry.is_warm:
            return self._capture(plan, module, step)
        outputs = step(plan.inputs)
        self.entry.is_warm = True
        return outputs, WARMING

    def _capture(self, plan: StepPlan, module: nn.Module, step: Step) -> tuple[Tensors, Break]:
        """The second step: capture it, and prove the graph on its own and on other inputs."""
        inputs = StaticInputs(plan.inputs)
        inputs.fill(plan.inputs)
        # As it is, first: kernels choose themselves, and libraries tune, in runs that nobody watches.
        outputs, self.entry.step_s = self._timed(lambda: step(plan.inputs))
        self._trying(lambda: self._proved(plan, module, step, inputs, outputs))
        return outputs, self.entry.reason or PROVING

    def _confirm(self, plan: StepPlan, module: nn.Module, step: Step) -> tuple[Tensors, Break]:
        """The third step, of other tensors and another closure: the graph must follow, and be faster."""
        inputs = StaticInputs(plan.inputs)
        inputs.fill(plan.inputs)
        outputs, eager_s = self._timed(lambda: step(plan.inputs))
        self._trying(lambda: self._same_operations(self._inspected(plan, module, step, inputs.tensors)))
        if self.entry.reason is None:
            self._trying(lambda: self._measured(plan, step, outputs, eager_s))
        return outputs, self.entry.reason or PROVING

    def _trying(self, work: Callable[[], None]) -> None:
        """Do what may fail without harm to the request; a failure frees everything and becomes the reason."""
        try:
            work()
        except _OverBudget as error:
            self.entry.refuse(Break(kind="over budget", detail=str(error)))
        except _NotFaster as error:
            self.entry.refuse(Break(kind=DISARMED, detail=str(error)))
        except Exception as error:
            self.entry.refuse(Break(kind="blocked", detail=told(error)))

    def _inspected(self, plan: StepPlan, module: nn.Module, step: Step, inputs: Tensors) -> Trace:
        """Watch a run on copies of the inputs; raises Uncapturable for what no graph could hold."""
        given = {f"input '{name}'": each for name, each in inputs.items()}
        weights = {f"'{plan.component}.{name}'": each for name, each in named_tensors(module).items()}
        inspection = Inspection(given | weights)
        try:
            with inspection:
                step(inputs)
        except Exception as error:
            raise Uncapturable(f"it cannot be watched: {told(error)}") from error
        trace = inspection.trace()
        if trace.faults:
            raise Uncapturable(trace.faults[0])
        return trace

    def _same_operations(self, trace: Trace) -> None:
        """Raise Uncapturable where a step runs other operations, or with other host values, than the last."""
        differs = self.entry.trace.difference(trace) if self.entry.trace else None
        if differs:
            raise Uncapturable(f"{differs}; {REMEDY}")
        self.entry.trace = trace

    def _proved(
        self, plan: StepPlan, module: nn.Module, step: Step, inputs: StaticInputs, outputs: Tensors
    ) -> None:
        """Capture and prove; the entry holds the graph only when both held."""
        written = difference(inputs.tensors, plan.inputs)
        watch = partial(self._inspected, plan, module, step, inputs.tensors)
        trace = watch()
        if written:
            raise Uncapturable(f"the step writes into its inputs: {written.replace('output', 'input')}")
        self._same_operations(trace)
        self._affordable(inputs.bytes + self.backend.forecast_bytes(trace))
        inputs.fill(plan.inputs)
        captured = CapturedStep(self.backend, step, inputs, named_tensors(module))
        try:
            self._prove(plan, step, captured, outputs, suspects=lambda: self._same_operations(watch()))
            self._affordable(captured.bytes)
        except BaseException:
            captured.free()
            raise
        self.entry.captured = captured

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
            self.entry.needed_bytes = needed_bytes
            raise _OverBudget(refused)

    def _prove(
        self,
        plan: StepPlan,
        step: Step,
        captured: CapturedStep,
        outputs: Tensors,
        suspects: Callable[[], None],
    ) -> None:
        """Replay on the step's inputs and on others; raises Uncapturable where eager gives other bits.

        `suspects` is asked first then, and raises with the name of what differs from run to run.
        """
        replayed = captured.run(plan.inputs)
        captured.check_private(replayed)
        differs = difference(outputs, replayed)
        if differs:
            suspects()
            raise Uncapturable(f"a replay does not repeat the step: {differs}")
        captured.check_inputs(plan.inputs)
        other = perturbed(plan.inputs)
        differs = difference(step(other), captured.run(other))
        captured.check_workspace()
        if differs:
            suspects()
            names = _unfollowed(plan, step, captured)
            raise Uncapturable(f"a replay does not follow the step to other inputs: {differs}{names}")

    def _measured(self, plan: StepPlan, step: Step, outputs: Tensors, eager_s: float) -> None:
        """Arm the graph; raises Uncapturable where it departs from eager, _NotFaster when it does not pay."""
        captured = self.entry.captured
        assert captured is not None
        self.entry.trace = None
        replayed, replay_s = self._timed(lambda: captured.run(plan.inputs))
        captured.check_workspace()
        differs = difference(outputs, replayed)
        if differs:
            raise Uncapturable(f"a replay does not follow the next step: {differs}; {REMEDY}")
        measurement = measured(
            lambda: self._timed(lambda: step(plan.inputs)),
            lambda: self._timed(lambda: captured.run(plan.inputs)),
            seconds=self.limits.measure_s,
            first=Pair(eager_s=eager_s, replay_s=replay_s),
            look_s=self.entry.look_s,
        )
        asked = self.limits.min_speedup
        if measurement.speedup < asked or (asked > 1 and not measurement.is_steady):
            raise _NotFaster(f"not faster ({measurement}, asked for {asked:g}x)")
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
    return text if isinstance(error, Uncapturable | RestrikeError) else f"{type(error).__name__}: {text}"
