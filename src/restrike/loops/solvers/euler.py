"""The Euler method for flow matching; equals diffusers' `FlowMatchEulerDiscreteScheduler.step` bit for bit.

It keeps no history.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from restrike.loops.schedule import Schedule
from restrike.loops.solvers.base import SolverStep, Tensors


@dataclass(frozen=True)
class Euler:
    """x' = x + (sigma' - sigma) v."""

    name: str = "euler"

    def plan(self, schedule: Schedule, device: torch.device) -> tuple[SolverStep, ...]:
        """One step a pair of neighbouring sigmas."""
        changes = (schedule.sigmas[1:] - schedule.sigmas[:-1]).to(device).unbind()
        return tuple(
            SolverStep(structure=(self.name,), coefficients={"dt": dt}, apply=euler_update) for dt in changes
        )


def euler_update(latent: Tensor, velocity: Tensor, inputs: Tensors) -> dict[str, Tensor]:
    """The next latent, in the latent's own dtype (float32)."""
    return {"latent": latent + inputs["dt"] * velocity}
