"""The portable reference of each op: torch's own operations, one after another, on any device.

All other kernels are held to these. Axes: B items, S tokens, D channels of all heads, H heads, E channels of
one head.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from restrike.engine.kernels.contract import Kernel
from restrike.loops import ops


def modulate(hidden: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """Layer norm over the last axis without weights, then normal (1 + scale) + shift.

    `shift` and `scale` meet `hidden` by broadcasting: one vector an item, (B, 1, ..., D). Source: Peebles and
    Xie 2023, "Scalable Diffusion Models with Transformers".
    """
    normal = F.layer_norm(hidden, hidden.shape[-1:])
    return torch.addcmul(shift, normal, 1.0 + scale)


def rms_rotary(
    hidden_BSD: Tensor, weight_D: Tensor, cos_BS1E: Tensor, sin_BS1E: Tensor, eps: float, heads: int
) -> Tensor:
    """RMS norm over all heads, then each pair of neighbouring channels turned by its token's angle: BSHE.

    The tables hold each angle twice, once a channel; their batch may be 1. Sources: Zhang and Sennrich 2019,
    "Root Mean Square Layer Normalization"; Su et al. 2021, "RoFormer".
    """
    normal_BSHE = F.rms_norm(hidden_BSD, hidden_BSD.shape[-1:], weight_D, eps).unflatten(-1, (heads, -1))
    real, imaginary = normal_BSHE.unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = cos_BS1E[..., 0::2], sin_BS1E[..., 1::2]
    turned_BSHE = torch.empty_like(normal_BSHE)
    turned_real, turned_imaginary = turned_BSHE.unflatten(-1, (-1, 2)).unbind(-1)
    turned_real.copy_(real * cos - imaginary * sin)
    turned_imaginary.copy_(real * sin + imaginary * cos)
    return turned_BSHE


def _plain(function: Callable[..., Any]) -> Kernel:
    return Kernel(run=lambda workspace, *arguments: function(*arguments))


GUIDED_EULER = _plain(ops.guided_euler)
SDE_STEP = _plain(ops.sde_step)
MODULATE = _plain(modulate)
RMS_ROTARY = _plain(rms_rotary)
