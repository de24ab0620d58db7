"""Draws scenes as clips: anti-aliased flat shapes from signed distances, a batch at a time.

Axes: B clips, C = 3 colours, T frames, H = W = 64 pixels. Values are in [-1, 1], sRGB, no noise.
Never reads or writes a file: training data is drawn as it is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from restrike.models.shapes.scene import SHAPES, SIDE_PX, SceneBatch

COLOUR_RGB = (
    (226, 52, 52),
    (245, 145, 35),
    (250, 220, 60),
    (52, 168, 83),
    (60, 200, 215),
    (50, 95, 220),
    (140, 70, 190),
    (245, 140, 185),
)
BACKGROUND_RGB = ((18, 18, 22), (245, 244, 240), (130, 134, 140))

_STAR_INNER = 0.46
_HEART_HALF_DIAGONAL = 0.80


def palette(rgb: tuple[tuple[int, int, int], ...]) -> Tensor:
    """8-bit colours as a (K, 3) tensor in [-1, 1]."""
    return torch.tensor(rgb, dtype=torch.float32) / 127.5 - 1.0


def draw_clips(scenes: SceneBatch, frames_T: Tensor, *, side_px: int = SIDE_PX) -> Tensor:
    """The given frames (numbers from 0) of each scene: clip_BCTHW in [-1, 1], fp32."""
    mask_B1THW = draw_masks(scenes, frames_T, side_px)[:, None]
    colour_BC111 = palette(COLOUR_RGB)[scenes.colour_B][:, :, None, None, None]
    background_BC111 = palette(BACKGROUND_RGB)[scenes.background_B][:, :, None, None, None]
    return background_BC111 + (colour_BC111 - background_BC111) * mask_B1THW


def draw_masks(scenes: SceneBatch, frames_T: Tensor, side_px: int) -> Tensor:
    """Coverage of each pixel by the shape, mask_BTHW in [0, 1]."""
    time_T = frames_T.to(torch.float32)
    centre_BT2 = scenes.start_B2[:, None] + time_T[None, :, None] * scenes.velocity_B2[:, None]
    radius_BT = scenes.radius_B[:, None] + time_T[None] * scenes.growth_B[:, None]
    mask_BTHW = torch.empty(len(scenes), len(time_T), side_px, side_px)
    for shape in range(len(SHAPES)):
        chosen_N = (scenes.shape_B == shape).nonzero()[:, 0]
        if len(chosen_N):
            mask_BTHW[chosen_N] = shape_mask(shape, centre_BT2[chosen_N], radius_BT[chosen_N], side_px)
    return mask_BTHW


def shape_mask(shape: int, centre_N2: Tensor, radius_N: Tensor, side_px: int) -> Tensor:
    """One shape at the given centres (x, y) and radii in pixels: mask_NHW, any leading axes N."""
    pixel_S = torch.arange(side_px, dtype=torch.float32) + 0.5
    radius_N11 = radius_N[..., None, None]
    x_N1W = (pixel_S - centre_N2[..., 0, None, None]) / radius_N11
    y_NH1 = (pixel_S[:, None] - centre_N2[..., 1, None, None]) / radius_N11
    distance_NHW = _DISTANCE[shape](x_N1W, y_NH1)
    return (0.5 - distance_NHW * radius_N11).clamp(0.0, 1.0)


# Signed distances of shapes of radius one, y downwards; exact near the outline, where it counts.


def _circle(x: Tensor, y: Tensor) -> Tensor:
    return (x.square() + y.square()).sqrt() - 1.0


def _square(x: Tensor, y: Tensor) -> Tensor:
    return torch.maximum(x.abs(), y.abs()) - 0.86


def _triangle(x: Tensor, y: Tensor) -> Tensor:
    apex, base, half_width = -1.0, 0.80, 1.0
    rise = base - apex
    flank = (rise * x.abs() - half_width * (y - apex)) / math.hypot(rise, half_width)
    return torch.maximum(flank, y - base)


def _star(x: Tensor, y: Tensor) -> Tensor:
    sector = 2.0 * math.pi / 5.0
    angle = torch.atan2(x, -y)
    folded = (torch.remainder(angle + sector / 2.0, sector) - sector / 2.0).abs()
    reach = (x.square() + y.square()).sqrt()
    # The edge from the outer tip (1, 0) to the inner corner, in the folded sector.
    inner_x = _STAR_INNER * math.cos(sector / 2.0)
    inner_y = _STAR_INNER * math.sin(sector / 2.0)
    length = math.hypot(1.0 - inner_x, inner_y)
    along, across = reach * folded.cos(), reach * folded.sin()
    return (inner_y * (along - 1.0) + (1.0 - inner_x) * across) / length


def _cross(x: Tensor, y: Tensor) -> Tensor:
    arm, half_width = 0.98, 0.34
    upright = torch.maximum(x.abs() - half_width, y.abs() - arm)
    level = torch.maximum(x.abs() - arm, y.abs() - half_width)
    return torch.minimum(upright, level)


def _ring(x: Tensor, y: Tensor) -> Tensor:
    return ((x.square() + y.square()).sqrt() - 0.76).abs() - 0.24


def _heart(x: Tensor, y: Tensor) -> Tensor:
    half = _HEART_HALF_DIAGONAL
    y = y - 0.08
    x = x.abs()
    point = (x + y.abs() - half) / math.sqrt(2.0)
    lobe = ((x - half / 2.0).square() + (y + half / 2.0).square()).sqrt() - half / math.sqrt(2.0)
    return torch.minimum(point, lobe)


_DISTANCE: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    _circle,
    _square,
    _triangle,
    _star,
    _cross,
    _ring,
    _heart,
)
