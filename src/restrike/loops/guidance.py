"""Classifier-free guidance: which branches a step runs and how they become one velocity.

A policy plans, its steps are pure functions of tensors; nothing is remembered here between steps. All act on
a batch as on one item: what is 0-d alone comes as a column (N, 1, ..., 1).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from restrike.loops.contract import Forward, Tensors

SCALE = "guidance"
DELTA = "history.delta"


class GuidanceStep(Protocol):
    """One step's guidance."""

    @property
    def branches(self) -> tuple[str, ...]:
        """The branches that run, in order."""
        ...

    @property
    def reads(self) -> tuple[str, ...]:
        """The tensors it needs beside the branches' own."""
        ...

    def __call__(self, forward: Forward, inputs: Tensors) -> tuple[Tensor, dict[str, Tensor]]:
        """The guided velocity, and tensors to keep for later steps."""
        ...


def branch_inputs(branch: str, inputs: Tensors) -> dict[str, Tensor]:
    """What one branch's forward sees: the common tensors, and its own under their short names."""
    own = {
        name.removeprefix(f"{branch}."): value
        for name, value in inputs.items()
        if name.startswith(f"{branch}.")
    }
    return {"latent": inputs["latent"], "timestep": inputs["timestep"], **own}


@dataclass(frozen=True)
class Unguided:
    """The conditional branch alone."""

    branches: tuple[str, ...] = ("cond",)
    reads: tuple[str, ...] = ()

    def __call__(self, forward: Forward, inputs: Tensors) -> tuple[Tensor, dict[str, Tensor]]:
        """v = v_cond."""
        return forward("cond", branch_inputs("cond", inputs)), {}


@dataclass(frozen=True)
class Classic:
    """Two forwards. Source: Ho and Salimans 2022, "Classifier-Free Diffusion Guidance"."""

    keeps_delta: bool = False
    branches: tuple[str, ...] = ("cond", "uncond")
    reads: tuple[str, ...] = (SCALE,)

    def __call__(self, forward: Forward, inputs: Tensors) -> tuple[Tensor, dict[str, Tensor]]:
        """v = v_uncond + scale (v_cond - v_uncond)."""
        return _guided(*self.pair(forward, inputs), inputs[SCALE], self.keeps_delta)

    def pair(self, forward: Forward, inputs: Tensors) -> tuple[Tensor, Tensor]:
        """The velocities of both branches, not yet combined."""
        conditional = forward("cond", branch_inputs("cond", inputs))
        return conditional, forward("uncond", branch_inputs("uncond", inputs))


@dataclass(frozen=True)
class Batched:
    """Both branches in one forward of twice the batch; equal to `Classic` within the card's tolerance."""

    keeps_delta: bool = False
    branches: tuple[str, ...] = ("cond", "uncond")
    reads: tuple[str, ...] = (SCALE,)

    def __call__(self, forward: Forward, inputs: Tensors) -> tuple[Tensor, dict[str, Tensor]]:
        """v = v_uncond + scale (v_cond - v_uncond)."""
        return _guided(*self.pair(forward, inputs), inputs[SCALE], self.keeps_delta)

    def pair(self, forward: Forward, inputs: Tensors) -> tuple[Tensor, Tensor]:
        """The velocities of both branches, not yet combined; the branches' shapes must agree."""
        cond, uncond = branch_inputs("cond", inputs), branch_inputs("uncond", inputs)
        both = {name: torch.cat([cond[name], uncond[name]]) for name in cond}
        conditional, unconditional = forward("cond+uncond", both).chunk(2)
        return conditional, unconditional


def _guided(
    conditional: Tensor, unconditional: Tensor, scale: Tensor, keeps_delta: bool
) -> tuple[Tensor, dict[str, Tensor]]:
    delta = conditional - unconditional
    return unconditional + scale * delta, {DELTA: delta} if keeps_delta else {}


@dataclass(frozen=True)
class Embedded:
    """A guidance-distilled model, which is told the scale and needs one forward."""

    branches: tuple[str, ...] = ("cond",)
    reads: tuple[str, ...] = (SCALE,)

    def __call__(self, forward: Forward, inputs: Tensors) -> tuple[Tensor, dict[str, Tensor]]:
        """v = v_cond(scale)."""
        told = {SCALE: inputs[SCALE].reshape(-1)}  # one an item: 0-d alone, a column in a batch
        return forward("cond", branch_inputs("cond", inputs) | told), {}


@dataclass(frozen=True)
class Reused:
    """The conditional branch with the guidance delta of an earlier step."""

    branches: tuple[str, ...] = ("cond",)
    reads: tuple[str, ...] = (SCALE, DELTA)

    def __call__(self, forward: Forward, inputs: Tensors) -> tuple[Tensor, dict[str, Tensor]]:
        """v = v_cond + (scale - 1) delta."""
        conditional = forward("cond", branch_inputs("cond", inputs))
        return conditional + (inputs[SCALE] - 1) * inputs[DELTA], {DELTA: inputs[DELTA]}


@dataclass(frozen=True, kw_only=True)
class GuidancePolicy:
    """Which guidance each step of a trajectory gets.

    `mode` is `none`, `cfg`, `batched` or `embedded`. Within `interval` of sigma (Kynkäänniemi et al. 2024,
    "Applying Guidance in a Limited Interval") the mode acts, outside it the conditional branch runs alone.
    With `every` > 1 the delta between the branches is computed at every n-th guided step and whenever the
    expert changes, and reused between. A model with embedded guidance is told its scale at every step.
    """

    mode: str
    interval: tuple[float, float] = (0.0, 1.0)
    every: int = 1

    def plan(self, sigmas: list[float], scales: list[float], experts: list[str]) -> tuple[GuidanceStep, ...]:
        """One guidance step a sigma; a scale of at most 1 is no guidance, as in diffusers."""
        if self.mode == "embedded":
            return (Embedded(),) * len(sigmas)
        steps: list[GuidanceStep] = []
        age, guided_by = 0, None
        for sigma, scale, expert in zip(sigmas, scales, experts, strict=True):
            if not self._acts(sigma, scale):
                steps.append(Unguided())
                guided_by = None
                continue
            fresh = expert != guided_by or age >= self.every
            age = 1 if fresh else age + 1
            guided_by = expert
            steps.append(self._fresh() if fresh else Reused())
        return tuple(steps)

    def _acts(self, sigma: float, scale: float) -> bool:
        low, high = self.interval
        return self.mode != "none" and low <= sigma <= high and scale > 1

    def _fresh(self) -> GuidanceStep:
        kind = Batched if self.mode == "batched" else Classic
        return kind(keeps_delta=self.every > 1)


def structure_of(step: GuidanceStep) -> tuple[Hashable, ...]:
    """What of a guidance step decides which kernels run."""
    return (type(step).__name__.lower(), step.branches, getattr(step, "keeps_delta", False))


def pair_of(step: GuidanceStep) -> Callable[[Forward, Tensors], tuple[Tensor, Tensor]] | None:
    """What gives both branches of a step that combines two and keeps nothing of them; None for all others.

    Such a step can be one op with the solver's update.
    """
    return step.pair if isinstance(step, Classic | Batched) and not step.keeps_delta else None
