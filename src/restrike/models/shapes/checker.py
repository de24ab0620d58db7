"""Reads colour, shape, motion and background back from the pixels of a clip, by measurement.

No learned part: palette distances, areas, centroids and overlap with exactly drawn templates. What
is not clearly one answer is read as None, so a blurred or broken clip never passes by luck.
Axes: B clips, C = 3, T frames, H, W pixels, S shapes. Never looks at a caption.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from restrike.models.shapes.data import BACKGROUND_RGB, COLOUR_RGB, palette, shape_mask
from restrike.models.shapes.scene import BACKGROUNDS, COLOURS, MOTIONS, SHAPES, SIDE_PX

_BORDER_PX = 2
_PALETTE_REACH = 0.35
_CORE_SHARE = 0.003
_CORE_LEVEL = 0.75
_FAINT = 0.25
_SMALLEST_AREA_PX = 12.0
_LEAST_OVERLAP = 0.65
_LEAST_LEAD = 0.05
_TEMPLATE_FRAMES = 5
_MOVED_PX = 6.0
_OFF_AXIS = 0.36  # the tangent of 20 degrees
_STILL_PX = 3.0
_GREW_PX = 3.0
_STEADY_PX = 1.8
_JUMP_PX = 2.5
_REFERENCE_RADIUS_PX = 24.0


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a clip shows; None where it is unclear. ``motion`` is None for a single frame."""

    colour: str | None
    shape: str | None
    motion: str | None
    background: str | None


@dataclass(frozen=True, kw_only=True)
class _Track:
    """Where the coverage lies in each frame: area in px^2, centroid (x, y) in px."""

    area_BT: Tensor
    centre_BT2: Tensor


@torch.no_grad()
def read_clips(clip_BCTHW: Tensor) -> list[Reading]:
    """Readings of clips with values in [-1, 1] and frames of 64x64 pixels."""
    clip_BCTHW = clip_BCTHW.to(torch.float32).clamp(-1.0, 1.0)
    background_B, ground_BC = _nearest(_border_colour(clip_BCTHW), palette(BACKGROUND_RGB))
    colour_B, tint_BC = _nearest(_core_colour(clip_BCTHW, ground_BC), palette(COLOUR_RGB))
    mask_BTHW = _coverage(clip_BCTHW, ground_BC, tint_BC)
    track = _track(mask_BTHW)
    shape_B, radius_BT = _shape(mask_BTHW, track)
    motion_B = _motion(track, radius_BT)
    return [
        Reading(
            colour=_name(COLOURS, colour),
            shape=_name(SHAPES, shape),
            motion=_name(MOTIONS, motion),
            background=_name(BACKGROUNDS, background),
        )
        for colour, shape, motion, background in zip(
            colour_B.tolist(), shape_B.tolist(), motion_B.tolist(), background_B.tolist(), strict=True
        )
    ]


def _name(names: tuple[str, ...], index: int) -> str | None:
    return names[index] if index >= 0 else None


def _nearest(found_BC: Tensor, palette_KC: Tensor) -> tuple[Tensor, Tensor]:
    """Index of the nearest palette entry (-1 when none is near) and that entry."""
    distance_B, index_B = torch.cdist(found_BC, palette_KC).min(dim=1)
    return torch.where(distance_B < _PALETTE_REACH, index_B, -1), palette_KC[index_B]


def _border_colour(clip_BCTHW: Tensor) -> Tensor:
    rim_HW = torch.ones(clip_BCTHW.shape[-2:], dtype=torch.bool)
    rim_HW[_BORDER_PX:-_BORDER_PX, _BORDER_PX:-_BORDER_PX] = False
    return clip_BCTHW[..., rim_HW].flatten(2).median(dim=2).values


def _core_colour(clip_BCTHW: Tensor, ground_BC: Tensor) -> Tensor:
    """Mean colour of the pixels that differ most from the ground: the inside of the shape."""
    pixels_BCN = clip_BCTHW.flatten(2)
    contrast_BN = (pixels_BCN - ground_BC[:, :, None]).norm(dim=1)
    rank = max(1, int(_CORE_SHARE * contrast_BN.shape[1]))
    peak_B1 = contrast_BN.topk(rank, dim=1).values[:, -1:]
    core_B1N = (contrast_BN >= _CORE_LEVEL * peak_B1).to(torch.float32)[:, None]
    return (pixels_BCN * core_B1N).sum(dim=2) / core_B1N.sum(dim=2)


def _coverage(clip_BCTHW: Tensor, ground_BC: Tensor, tint_BC: Tensor) -> Tensor:
    """How far each pixel has gone from ground to tint, mask_BTHW in [0, 1]."""
    axis_BC = tint_BC - ground_BC
    axis_BC = axis_BC / axis_BC.square().sum(dim=1, keepdim=True)
    offset_BCTHW = clip_BCTHW - ground_BC[:, :, None, None, None]
    mask_BTHW = torch.einsum("bcthw,bc->bthw", offset_BCTHW, axis_BC)
    return torch.where(mask_BTHW < _FAINT, 0.0, mask_BTHW.clamp(max=1.0))


def _track(mask_BTHW: Tensor) -> _Track:
    area_BT = mask_BTHW.sum(dim=(2, 3))
    pixel_S = torch.arange(SIDE_PX, dtype=torch.float32) + 0.5
    x_BT = (mask_BTHW.sum(dim=2) * pixel_S).sum(dim=2)
    y_BT = (mask_BTHW.sum(dim=3) * pixel_S).sum(dim=2)
    return _Track(
        area_BT=area_BT, centre_BT2=torch.stack([x_BT, y_BT], dim=-1) / area_BT.clamp(min=1.0)[..., None]
    )


def _shape(mask_BTHW: Tensor, track: _Track) -> tuple[Tensor, Tensor]:
    """The shape whose template clearly covers the mask best (or -1), and its radius_BT in px."""
    frames = mask_BTHW.shape[1]
    chosen_F = torch.linspace(0, frames - 1, min(_TEMPLATE_FRAMES, frames)).round().long()
    mask_BFHW, area_BF, centre_BF2 = (
        mask_BTHW[:, chosen_F],
        track.area_BT[:, chosen_F],
        track.centre_BT2[:, chosen_F],
    )
    scores: list[Tensor] = []
    radii: list[Tensor] = []
    for shape in range(len(SHAPES)):
        area, offset_2 = _reference(shape)
        radius_BF = (area_BF / area).sqrt().clamp(min=1.0)
        template_BFHW = shape_mask(shape, centre_BF2 - offset_2 * radius_BF[..., None], radius_BF, SIDE_PX)
        common_BF = torch.minimum(mask_BFHW, template_BFHW).sum(dim=(2, 3))
        joint_BF = torch.maximum(mask_BFHW, template_BFHW).sum(dim=(2, 3))
        scores.append((common_BF / joint_BF).mean(dim=1))
        radii.append((track.area_BT / area).sqrt())
    (best_B, second_B), (shape_B, _) = (ranked.unbind(1) for ranked in torch.stack(scores, dim=1).topk(2))
    radius_BT = torch.stack(radii, dim=1)[torch.arange(len(shape_B)), shape_B]
    whole_B = (track.area_BT > _SMALLEST_AREA_PX).all(dim=1)
    clear_B = (best_B > _LEAST_OVERLAP) & (best_B - second_B > _LEAST_LEAD)
    return torch.where(whole_B & clear_B, shape_B, -1), radius_BT


def _reference(shape: int) -> tuple[float, Tensor]:
    """Area and centroid offset of the shape of radius one."""
    middle_2 = torch.full((2,), SIDE_PX / 2.0)
    mask_HW = shape_mask(shape, middle_2, torch.tensor(_REFERENCE_RADIUS_PX), SIDE_PX)
    track = _track(mask_HW[None, None])
    offset_2 = (track.centre_BT2[0, 0] - middle_2) / _REFERENCE_RADIUS_PX
    return float(track.area_BT) / _REFERENCE_RADIUS_PX**2, offset_2


def _motion(track: _Track, radius_BT: Tensor) -> Tensor:
    """Index of the motion, -1 where the path is not clearly one of them (always, for one frame)."""
    frames = radius_BT.shape[1]
    if frames == 1:
        return torch.full((radius_BT.shape[0],), -1)
    path_BT3 = torch.cat([track.centre_BT2, radius_BT[..., None]], dim=-1)
    change_B3, jump_B = _line(path_BT3)
    along_x_B, along_y_B, growth_B = change_B3.unbind(1)
    sideways_B = along_x_B.abs() > along_y_B.abs()
    reach_B, stray_B = (
        torch.maximum(along_x_B.abs(), along_y_B.abs()),
        torch.minimum(along_x_B.abs(), along_y_B.abs()),
    )
    heading_B = torch.where(sideways_B, torch.where(along_x_B < 0, 0, 1), torch.where(along_y_B < 0, 2, 3))
    moves_B = (reach_B > _MOVED_PX) & (stray_B < _OFF_AXIS * reach_B) & (growth_B.abs() < _GREW_PX)
    grows_B = (growth_B.abs() > _GREW_PX) & (reach_B < _MOVED_PX)
    rests_B = (reach_B < _STILL_PX) & (growth_B.abs() < _STEADY_PX)
    motion_B = torch.where(moves_B, heading_B, -1)
    motion_B = torch.where(grows_B, torch.where(growth_B > 0, 4, 5), motion_B)
    motion_B = torch.where(rests_B, 6, motion_B)
    return torch.where(jump_B < _JUMP_PX, motion_B, -1)


def _line(path_BT3: Tensor) -> tuple[Tensor, Tensor]:
    """Change over the clip of the least-squares line, and the largest departure from it, in px."""
    time_T = torch.linspace(-0.5, 0.5, path_BT3.shape[1])
    change_B3 = torch.einsum("t,btk->bk", time_T, path_BT3) / time_T.square().sum()
    fitted_BT3 = path_BT3.mean(dim=1, keepdim=True) + time_T[None, :, None] * change_B3[:, None]
    return change_B3, (path_BT3 - fitted_BT3).norm(dim=2).amax(dim=1)
