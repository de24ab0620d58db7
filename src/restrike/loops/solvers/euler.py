"""The Euler method for flow matching; equals diffusers' `FlowMatchEulerDiscreteScheduler.step` bit for bit.

It keeps no history.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from restrike.loops.ops import TORCH_OPS, GuidedEuler, StepOps
from restrike.loops.schedule import Schedule
from restrike.loops.solvers.base import SolverStep, Tensors


@dataclass(frozen=True)
class Euler:
    """x' = x + (sigma' - sigma) v."""

    name: str = "euler"

    def plan(
        self, schedule: Schedule, device: torch.device, ops: StepOps = TORCH_OPS
    ) -> tuple[SolverStep, ...]:
        """One step a pair of neighbouring sigmas."""
        changes = (schedule.sigmas[1:] - schedule.sigmas[:-1]).to(device).unbind()
        return tuple(euler_step(dt, ops) for dt in changes)


def euler_step(dt: Tensor, ops: StepOps) -> SolverStep:
    """The step that goes on by `dt` of sigma."""
    return SolverStep(
        structure=("euler",),
        coefficients={"dt": dt},
        apply=euler_update,
        apply_guided=partial(guided_euler_update, ops.guided_euler),
    )


def euler_update(latent: Tensor, velocity: Tensor, inputs: Tensors) -> dict[str, Tensor]:
    """The next latent, in the latent's own dtype (float32)."""
    return {"latent": latent + inputs["dt"] * velocity}


def guided_euler_update(
    op: GuidedEuler,
    latent: Tensor,
    conditional: Tensor,
    unconditional: Tensor,
    scale: Tensor,
    inputs: Tensors,
) -> dict[str, Tensor]:
    """The guided velocity and the next latent, by one op."""
    velocity, following = op(latent, conditional, unconditional, scale, inputs["dt"])
    return {"velocity": velocity, "latent": following}
