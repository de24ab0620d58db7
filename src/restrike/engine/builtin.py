"""The extensions that come with the engine: step times, non-finite values, residual skipping, early exit.

They hold settings only; their memory is made by `begin` for each picture.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

import torch
from torch import Tensor

from restrike.engine.extensions import ForwardCall
from restrike.loops.contract import StepPlan, Tensors


@dataclass(frozen=True)
class StepTimes:
    """Reports how long the steps of each expert took."""

    name: str = "step-times"

    def begin(self) -> dict[str, list[float]]:
        """Seconds by component."""
        return {}

    def observe(
        self, memory: dict[str, list[float]], plan: StepPlan, outputs: Tensors, seconds: float
    ) -> None:
        """Note the step's time."""
        memory.setdefault(plan.component, []).append(seconds)

    def report(self, memory: dict[str, list[float]]) -> tuple[str, ...]:
        """The median and the longest step of each component."""
        return tuple(
            f"{component}: {len(times)} steps, median {median(times) * 1000:.1f} ms, "
            f"longest {max(times) * 1000:.1f} ms"
            for component, times in memory.items()
        )


@dataclass(frozen=True)
class NonFinite:
    """Names the first step and tensor in which a NaN or an infinity appeared."""

    name: str = "non-finite"

    def begin(self) -> list[str]:
        """At most one finding."""
        return []

    def observe(self, memory: list[str], plan: StepPlan, outputs: Tensors, seconds: float) -> None:
        """Look for the first bad tensor of the first bad step."""
        if memory:
            return
        bad = next((n for n, value in outputs.items() if not bool(torch.isfinite(value).all())), None)
        if bad is not None:
            memory.append(f"first non-finite value at step {plan.index + 1} of {plan.total}, in {bad}")

    def report(self, memory: list[str]) -> tuple[str, ...]:
        """The finding, if there is one."""
        return tuple(memory)


@dataclass
class Residual:
    """The last forward that ran, its input and its output, and how many were asked for and skipped."""

    latent: Tensor | None = None
    velocity: Tensor | None = None
    asked: int = 0
    skipped: int = 0


@dataclass(frozen=True)
class ResidualSkip:
    """Reuses the last velocity while the latent has moved by less than `threshold` since, relatively.

    The solver still runs every step. A threshold of 0 never skips.
    """

    threshold: float = 0.05
    name: str = "residual-skip"
    alters: bool = field(default=True, init=False)

    def begin(self) -> Residual:
        """Nothing was run yet."""
        return Residual()

    def intercept(self, memory: Residual, call: ForwardCall, forward: Callable[[], Tensor]) -> Tensor:
        """Skip the forward while the accumulated relative change is small."""
        memory.asked += 1
        latent = call.inputs["latent"]
        if memory.latent is not None and memory.velocity is not None:
            moved = (latent - memory.latent).abs().mean() / memory.latent.abs().mean()
            if float(moved) < self.threshold:
                memory.skipped += 1
                return memory.velocity
        memory.latent, memory.velocity = latent, forward()
        return memory.velocity

    def report(self, memory: Residual) -> tuple[str, ...]:
        """How much was skipped."""
        return (f"{memory.skipped} of {memory.asked} forwards skipped",)


@dataclass
class Estimate:
    """The clean latent that the last step foretold and its sigma, and how many steps were taken."""

    clean: Tensor | None = None
    sigma: float = 1.0
    step: int = 0
    total: int = 0


@dataclass(frozen=True)
class EarlyExit:
    """Ends a picture when the clean latent that its steps foretell has settled.

    A step foretells x - sigma v. It has settled when, at the pace of the last two steps, it would move by
    less than `threshold` of itself on all the way that is left. A threshold of 0 never ends a picture.
    """

    threshold: float = 0.1
    name: str = "early-exit"

    def begin(self) -> Estimate:
        """Nothing was foretold yet."""
        return Estimate()

    def enough(self, memory: Estimate, plan: StepPlan, outputs: Tensors) -> bool:
        """Compare what this step foretells with what the one before it did."""
        clean, last = plan.inputs["latent"] - plan.sigma * outputs["velocity"], memory.clean
        left = plan.sigma / (memory.sigma - plan.sigma) if last is not None else 0.0
        memory.clean, memory.sigma, memory.step, memory.total = clean, plan.sigma, plan.index + 1, plan.total
        if last is None:
            return False
        return left * float((clean - last).norm() / clean.norm()) < self.threshold

    def report(self, memory: Estimate) -> tuple[str, ...]:
        """Where the picture ended."""
        return (f"ended after {memory.step} of {memory.total} steps",)
