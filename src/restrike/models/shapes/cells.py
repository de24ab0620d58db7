"""Convolutions at the latent's own resolution, before and after the transformer's coarser patches.

Outlines and slow motion are finer than a patch; here each latent cell sees its neighbours in space and
time. Axes: B items, T latent frames, H, W latent rows and columns, C channels (last, as the
convolutions here run fastest), D channels of the condition.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from restrike.engine.kernels import ops as kernels


class CellBlock(nn.Module):
    """Two convolutions in space with one over three frames between, added to what came in."""

    def __init__(self, channels: int, condition_width: int) -> None:
        super().__init__()
        self.modulation = nn.Linear(condition_width, 2 * channels)
        self.conv_in = nn.Conv2d(channels, channels, 3, padding=1)
        self.time = nn.Linear(3 * channels, channels)
        self.conv_out = nn.Conv2d(channels, channels, 3, padding=1)
        nn.init.zeros_(self.modulation.weight)
        nn.init.zeros_(self.modulation.bias)

    def forward(self, cells_BTHWC: Tensor, condition_BD: Tensor) -> Tensor:
        shift_BC, scale_BC = self.modulation(condition_BD).chunk(2, dim=-1)
        branch_BTHWC = _over_frames(self.conv_in, F.silu(modulate(cells_BTHWC, shift_BC, scale_BC)))
        branch_BTHWC = branch_BTHWC + self.time(_with_neighbours(branch_BTHWC))
        return cells_BTHWC + _over_frames(self.conv_out, F.silu(branch_BTHWC))


def modulate(hidden_BTHWD: Tensor, shift_BD: Tensor, scale_BD: Tensor) -> Tensor:
    """Layer norm over the last axis, then scale and shift, one pair an item."""
    return kernels.modulate(hidden_BTHWD, over_tokens(shift_BD), over_tokens(scale_BD))


def over_tokens(values_BD: Tensor) -> Tensor:
    """One vector an item, ready to meet BTHWD."""
    return values_BD[:, None, None, None]


def patches_of(cells_BTHWC: Tensor, side: int) -> Tensor:
    """Squares of cells as one token each: BTHWP with P = C * side * side, H and W smaller by ``side``."""
    split = cells_BTHWC.unflatten(3, (-1, side)).unflatten(2, (-1, side))  # B T H p W q C
    return split.permute(0, 1, 2, 4, 6, 3, 5).flatten(4)


def cells_of(patches_BTHWP: Tensor, side: int) -> Tensor:
    """Undoes ``patches_of``."""
    split = patches_BTHWP.unflatten(4, (-1, side, side))  # B T H W C p q
    return split.permute(0, 1, 2, 5, 3, 6, 4).flatten(4, 5).flatten(2, 3)


def _over_frames(conv: nn.Conv2d, cells_BTHWC: Tensor) -> Tensor:
    frames_NCHW = cells_BTHWC.flatten(0, 1).permute(0, 3, 1, 2)
    return conv(frames_NCHW).permute(0, 2, 3, 1).unflatten(0, cells_BTHWC.shape[:2])


def _with_neighbours(cells_BTHWC: Tensor) -> Tensor:
    before = torch.cat([cells_BTHWC[:, :1], cells_BTHWC[:, :-1]], dim=1)
    after = torch.cat([cells_BTHWC[:, 1:], cells_BTHWC[:, -1:]], dim=1)
    return torch.cat([before, cells_BTHWC, after], dim=-1)
