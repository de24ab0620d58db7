"""Flow-matching noise schedules: the sigmas that a trajectory visits.

A schedule is a value; it has no position and belongs to no request.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

TRAIN_TIMESTEPS = 1000


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Where a trajectory goes.

    `sigmas`: float32 on the CPU, one more than there are steps, descending, ending at 0. `timesteps`: what
    the model is told at each step, in its own dtype.
    """

    sigmas: Tensor
    timesteps: Tensor

    @property
    def steps(self) -> int:
        """The number of denoising steps."""
        return len(self.timesteps)


def flow_schedule(steps: int, *, shift: float = 1.0, sigmas: tuple[float, ...] | None = None) -> Schedule:
    """Evenly spaced sigmas from 1 towards 0, moved to the noisy end by `shift`.

    s' = shift s / (1 + (shift - 1) s). Given `sigmas` are used as they are, without a shift. Source: Esser
    et al. 2024, "Scaling Rectified Flow Transformers for High-Resolution Image Synthesis", section 5.3.2.
    """
    if sigmas is None:
        even = torch.arange(steps, 0, -1, dtype=torch.float64) / steps
        visited = shift * even / (shift * even + (1 - even))
    else:
        visited = torch.tensor(sigmas, dtype=torch.float64)
    closed = torch.cat([visited, visited.new_zeros(1)]).to(torch.float32)
    return Schedule(sigmas=closed, timesteps=closed[:-1] * TRAIN_TIMESTEPS)
