"""The stochastic flow solver with log-probability, as reinforcement learning needs it.

Noise enters as a tensor and the log-probability leaves as one; nothing is drawn inside a step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor

from restrike.loops.ops import TORCH_OPS, SdeStep, StepOps, log_density, moved_mean
from restrike.loops.schedule import Schedule
from restrike.loops.solvers.base import SolverStep, Tensors, scalar
from restrike.loops.solvers.euler import euler_step


@dataclass(frozen=True)
class FlowSDE:
    """The SDE that shares its marginals with the flow ODE; `noise_level` 0 would be the ODE.

    With s = noise_level * sqrt(sigma / (1 - sigma)) and dt = sigma' - sigma < 0:
    mean = x (1 + s^2 / (2 sigma) dt) + v (1 + s^2 (1 - sigma) / (2 sigma)) dt,
    x' = mean + s sqrt(-dt) noise.
    At sigma = 1 the scale s takes the next sigma, since it diverges there. The last step, which ends at
    sigma 0, is the Euler step: noise added there would stay in the picture.
    Source: Liu et al. 2025, "Flow-GRPO", equations 8 and 9.
    """

    name: str = "sde"
    noise_level: float = 0.7

    def plan(
        self, schedule: Schedule, device: torch.device, ops: StepOps = TORCH_OPS
    ) -> tuple[SolverStep, ...]:
        """Stochastic steps, and a closing deterministic one."""
        sigmas = [float(sigma) for sigma in schedule.sigmas]
        apply = partial(sde_update, ops.sde_step)
        steps = [
            SolverStep(
                structure=(self.name,),
                coefficients={name: scalar(value, device) for name, value in numbers.items()},
                apply=apply,
                stochastic=True,
            )
            for numbers in (self._numbers(*pair) for pair in pairwise(sigmas[:-1]))
        ]
        return (*steps, euler_step(scalar(sigmas[-1] - sigmas[-2], device), ops))

    def _numbers(self, sigma: float, following: float) -> dict[str, float]:
        dt = following - sigma
        inside = sigma if sigma < 1 else following
        scale = self.noise_level * math.sqrt(inside / (1 - inside))
        deviation = scale * math.sqrt(-dt)
        return {
            "keep": 1 + scale**2 / (2 * sigma) * dt,
            "move": (1 + scale**2 * (1 - sigma) / (2 * sigma)) * dt,
            "deviation": deviation,
            "log_norm": -math.log(deviation) - 0.5 * math.log(2 * math.pi),
        }


def sde_mean(latent: Tensor, velocity: Tensor, inputs: Tensors) -> Tensor:
    """The mean of the Gaussian from which the next latent is drawn."""
    return moved_mean(latent, velocity, inputs["keep"], inputs["move"])


def log_prob(sample: Tensor, mean: Tensor, inputs: Tensors) -> Tensor:
    """The log-density of each item of `sample` (shape (N,), float32); see `log_density`."""
    return log_density(sample, mean, inputs["deviation"], inputs["log_norm"])


def sde_update(op: SdeStep, latent: Tensor, velocity: Tensor, inputs: Tensors) -> dict[str, Tensor]:
    """Draw the next latent with the given noise, and say how likely it was."""
    coefficients = (inputs[name] for name in ("keep", "move", "deviation", "log_norm"))
    sample, density = op(latent, velocity, inputs["noise"], *coefficients)
    return {"latent": sample, "log_prob": density}
