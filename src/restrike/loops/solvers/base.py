"""What a solver gives the denoising loop: one planned update a step.

Planned once, when a request begins; nothing is computed from a host number during a step.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from restrike.loops.ops import TORCH_OPS, StepOps
from restrike.loops.schedule import Schedule

Tensors = Mapping[str, Tensor]
GuidedUpdate = Callable[[Tensor, Tensor, Tensor, Tensor, Tensors], dict[str, Tensor]]


@dataclass(frozen=True, kw_only=True)
class SolverStep:
    """One update of the latent.

    `apply(latent, velocity, inputs)` is pure. `inputs` hold this step's `coefficients` (float32: numbers are
    0-d, what is more leads with a batch of 1), the `history` tensors it reads, and, when it is `stochastic`,
    `noise` of the latent's shape. It returns `latent`, the history that later steps read, and `log_prob`
    (one an item, shape (N,)) when it is stochastic. In a batch of N, numbers come as columns (N, 1, ..., 1).

    Where there is one op for both, `apply_guided(latent, conditional, unconditional, scale, inputs)` combines
    the branches of classifier-free guidance and applies the step; it returns `velocity` too.
    """

    structure: tuple[Hashable, ...]
    coefficients: Tensors
    apply: Callable[[Tensor, Tensor, Tensors], dict[str, Tensor]]
    apply_guided: GuidedUpdate | None = None
    history: tuple[str, ...] = ()
    stochastic: bool = False


class Solver(Protocol):
    """A numerical method for one trajectory."""

    @property
    def name(self) -> str:
        """As a request names it."""
        ...

    def plan(
        self, schedule: Schedule, device: torch.device, ops: StepOps = TORCH_OPS
    ) -> tuple[SolverStep, ...]:
        """All steps of a trajectory, their coefficients on the device; they compute with `ops`."""
        ...


def scalar(value: float, device: torch.device) -> Tensor:
    """A host number as the 0-d float32 tensor that a step reads."""
    return torch.tensor(value, dtype=torch.float32, device=device)
