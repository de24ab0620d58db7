"""Muon (https://kellerjordan.github.io/posts/muon/) for matrices and, flattened, convolution kernels.

torch.optim.Muon takes matrices alone; this one is used for the VAE's kernels too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

_QUINTIC = (3.4445, -4.7750, 2.0315)


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised per matrix, scaled to the step size that AdamW would take."""

    def __init__(
        self, groups: Iterable[dict[str, Any]], lr: float, momentum: float, weight_decay: float
    ) -> None:
        super().__init__(groups, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                slots = self.state[parameter]
                if not slots:
                    slots["momentum"] = torch.zeros_like(parameter)
                slots["momentum"].lerp_(parameter.grad, 1.0 - group["momentum"])
                update = parameter.grad.lerp(slots["momentum"], group["momentum"]).flatten(1)
                scale = 0.2 * max(update.shape) ** 0.5
                parameter.mul_(1.0 - group["lr"] * group["weight_decay"])
                parameter.add_(orthogonalise(update).view_as(parameter), alpha=-group["lr"] * scale)


def orthogonalise(matrix_AB: Tensor, iterations: int = 5) -> Tensor:
    """The nearest semi-orthogonal matrix, roughly: a Newton-Schulz iteration on the singular values."""
    tall = matrix_AB.shape[0] > matrix_AB.shape[1]
    value = matrix_AB.mT if tall else matrix_AB
    value = value / (value.norm() + 1e-7)
    linear, cubic, quintic = _QUINTIC
    for _ in range(iterations):
        gram = value @ value.mT
        value = linear * value + (cubic * gram + quintic * gram @ gram) @ value
    return value.mT if tall else value
