"""One signature on its way from the first step to an armed graph, or to the reason why there is none.

All of it is the capturer's to change; it keeps nothing of a request but what was seen of its host values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import nn

from restrike.engine.capture.captured import CapturedStep
from restrike.engine.capture.counters import Break
from restrike.engine.capture.host_values import HostValues
from restrike.engine.capture.key import CaptureKey
from restrike.engine.capture.module_values import ModuleWatch, watched
from restrike.engine.capture.timing import Measurement
from restrike.engine.capture.trace import Trace
from restrike.loops.contract import StepPlan

REMEDY = "what a step needs each time must be a 0-d tensor among its inputs"


@dataclass(frozen=True, kw_only=True)
class Sight:
    """The host values around a step: those of its plan, and those of the module's parts."""

    plan: HostValues
    module: ModuleWatch
    module_values: list[Any]

    def difference(self, other: HostValues) -> str | None:
        """The first host value that differs in a later step, with the remedy."""
        found = other.difference(self.plan) or self.module.difference(self.module_values)
        return f"{found}; {REMEDY}" if found else None


def plan_values(plan: StepPlan) -> HostValues:
    """The host values that a plan's functions can see; raises TooMuch."""
    return HostValues({"compute": plan.compute, "call": plan.call})


def sight(plan: StepPlan, module: nn.Module) -> Sight:
    """Look for the first time; raises TooMuch."""
    watch = watched(module, plan.component)
    return Sight(plan=plan_values(plan), module=watch, module_values=watch.values())


@dataclass(kw_only=True)
class Entry:
    """What is known of one signature.

    A step later it is warm, then it has a `trace` and a graph in `captured`, then a `measurement`; with a
    `reason` it stays eager and holds nothing else, until `needed_bytes` are free if that was the reason.
    `step_s` is what a step takes eagerly, `look_s` what finding this entry took, `restarts` how many entries
    of its signature came before it, none of which came to a graph.
    """

    key: CaptureKey
    sight: Sight | None = None
    is_warm: bool = False
    trace: Trace | None = None
    step_s: float = 0.0
    look_s: float = 0.0
    captured: CapturedStep | None = None
    measurement: Measurement | None = None
    reason: Break | None = None
    needed_bytes: int = 0
    replays: int = 0
    restarts: int = 0
    label: str = field(default="")

    @property
    def is_armed(self) -> bool:
        """Whether replays answer."""
        return self.captured is not None and self.measurement is not None

    @property
    def bytes(self) -> int:
        """What its graph holds."""
        return self.captured.bytes if self.captured else 0

    def refuse(self, reason: Break) -> None:
        """Run eagerly from now on, for this reason; lets go of everything."""
        self.free()
        self.reason = reason

    def free(self) -> None:
        """Let go of the graph and of what was seen."""
        if self.captured is not None:
            self.captured.free()
        self.captured = self.trace = self.sight = None

    def __str__(self) -> str:
        if self.reason is not None:
            state = str(self.reason)
        elif self.is_armed:
            state = f"armed, {self.measurement}, {self.bytes:,} bytes, {self.replays} replays"
        else:
            state = "proving" if self.captured else "warming"
        return f"{self.label}: {state}"


def label_of(plan: StepPlan) -> str:
    """A signature as a person tells it from others: component, structure, and the latent's size."""
    structure = " ".join(dict.fromkeys(word for word in _words(plan.structure) if word != plan.component))
    first = next(iter(plan.inputs.values()), None)
    latent = plan.inputs.get("latent", first)
    size = "x".join(map(str, latent.shape)) if latent is not None else "no inputs"
    return f"{plan.component} [{structure}] {size}"


def _words(value: Any) -> list[str]:
    if isinstance(value, tuple | list):
        return [word for each in value for word in _words(each)]
    return [str(value)]
