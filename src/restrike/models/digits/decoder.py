"""The decoder: from the normalised latent, one cell a pixel, to ink. It upscales nothing.

Axes: B items, C channels (1), H, W rows and columns of 8. Ink runs from 0 (none) to 1.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class DigitsDecoder(nn.Module):
    """latent_BCHW to ink_BCHW and back, by the mean picture and the spread of the training digits."""

    mean_HW: Tensor
    spread: Tensor

    def __init__(self, side: int) -> None:
        super().__init__()
        self.register_buffer("mean_HW", torch.zeros(side, side))
        self.register_buffer("spread", torch.ones(()))

    def forward(self, latent_BCHW: Tensor) -> Tensor:
        """Ink, clamped to 0 to 1."""
        return (latent_BCHW * self.spread + self.mean_HW).clamp(0, 1)

    def encode(self, ink_BCHW: Tensor) -> Tensor:
        """The latent of given ink."""
        return (ink_BCHW - self.mean_HW) / self.spread
