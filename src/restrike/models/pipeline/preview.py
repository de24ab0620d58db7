"""A cheap look at a latent of unknown make: its three strongest components as red, green and blue.

It decodes nothing, so it shows layout and motion, not true colours.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

# How many channels the latents of published autoencoders have.
CHANNELS = (3, 4, 8, 12, 16, 24, 32, 48, 64, 128)


def picture_of_latent(latent: Tensor, aspect: float | None) -> np.ndarray[Any, Any] | None:
    """THWC uint8 of the first picture of a batch; None when the latent is not laid out as a grid.

    Args:
        latent: BCHW, BCTHW, BTCHW, or the tokens of a still as BLC.
        aspect: height over width of a still, which lays out its tokens; None for tokens of a clip.
    """
    grid_CTHW = _grid(latent, aspect)
    if grid_CTHW is None:
        return None
    colours_LC = _components(torch.nan_to_num(grid_CTHW.flatten(1).T.float()))
    shades_LC = (colours_LC / (4 * colours_LC.std(0) + 1e-6) + 0.5).clamp(0, 1)
    shape = (*grid_CTHW.shape[1:], 3)
    return (shades_LC * 255).round().to(torch.uint8).reshape(shape).cpu().numpy()


def _grid(latent: Tensor, aspect: float | None) -> Tensor | None:
    if latent.ndim == 4:
        return latent[0].unsqueeze(1)
    if latent.ndim == 5:
        first = latent[0]
        return (
            first if first.shape[0] in CHANNELS or first.shape[1] not in CHANNELS else first.transpose(0, 1)
        )
    if latent.ndim != 3 or aspect is None:
        return None
    tokens = latent.shape[1]
    rows = round(math.sqrt(tokens * aspect))
    if rows == 0 or tokens % rows:
        return None
    return latent[0].T.unflatten(1, (1, rows, tokens // rows))


def _components(values_LC: Tensor) -> Tensor:
    """The three principal components, each with a fixed sign; missing ones are zero."""
    centred_LC = values_LC - values_LC.mean(0)
    axes_CK = torch.linalg.eigh(centred_LC.T @ centred_LC).eigenvectors.flip(1)[:, :3]
    strongest = axes_CK.gather(0, axes_CK.abs().argmax(0, keepdim=True))
    found_LK = centred_LC @ (axes_CK * strongest.sign())
    return torch.nn.functional.pad(found_LK, (0, 3 - found_LK.shape[1]))
