"""What a clip can show: the closed vocabulary, scenes drawn at random, and the held-out rule.

Knows no pixels (data.py draws them) and no sentences (captions.py writes them). A scene batch
holds plain index tensors, so that a thousand clips are drawn with a handful of tensor operations.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

COLOURS = ("red", "orange", "yellow", "green", "cyan", "blue", "purple", "pink")
SHAPES = ("circle", "square", "triangle", "star", "cross", "ring", "heart")
MOTIONS = ("left", "right", "up", "down", "growing", "shrinking", "resting")
BACKGROUNDS = ("black", "white", "grey")
SIZES = ("small", "large")
SPEEDS = ("slowly", "quickly")

SIDE_PX = 64
CLIP_FRAMES = 17

_HEADING = {"left": (-1.0, 0.0), "right": (1.0, 0.0), "up": (0.0, -1.0), "down": (0.0, 1.0)}
_RADIUS_PX = ((9.5, 10.5), (12.5, 13.5))
_SPEED_PX = ((0.75, 0.90), (1.35, 1.55))
_SMALL_END_PX = (7.0, 8.0)
_GROWTH_PX = (0.36, 0.42)
_OFF_CENTRE_PX = 6.0


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One clip in words; ``size`` and ``speed`` are None where the motion leaves them open."""

    colour: str
    shape: str
    motion: str
    background: str
    size: str | None = None
    speed: str | None = None


@dataclass(frozen=True, kw_only=True)
class SceneBatch:
    """B scenes as indices into the vocabulary, with the geometry that words leave open.

    ``start_B2`` and ``velocity_B2`` are (x, y) in pixels and pixels a frame, y downwards;
    ``radius_B`` and ``growth_B`` are in pixels and pixels a frame. ``size_B`` and ``speed_B`` are
    -1 where they have no meaning (a growing shape has no one size, a resting one no speed).
    """

    colour_B: Tensor
    shape_B: Tensor
    motion_B: Tensor
    background_B: Tensor
    size_B: Tensor
    speed_B: Tensor
    start_B2: Tensor
    velocity_B2: Tensor
    radius_B: Tensor
    growth_B: Tensor

    def __len__(self) -> int:
        return self.colour_B.shape[0]

    def scene(self, index: int) -> Scene:
        """The words of item ``index``."""
        size, speed = int(self.size_B[index]), int(self.speed_B[index])
        return Scene(
            colour=COLOURS[int(self.colour_B[index])],
            shape=SHAPES[int(self.shape_B[index])],
            motion=MOTIONS[int(self.motion_B[index])],
            background=BACKGROUNDS[int(self.background_B[index])],
            size=None if size < 0 else SIZES[size],
            speed=None if speed < 0 else SPEEDS[speed],
        )


@dataclass(frozen=True, kw_only=True)
class Combination:
    """A (colour, shape, motion) triple as vocabulary indices: the unit that training holds out."""

    colour: int
    shape: int
    motion: int

    @property
    def held_out(self) -> bool:
        """One in eight, by rule: for every shape and motion exactly one colour is never trained."""
        return (self.colour + 3 * self.shape + 5 * self.motion) % len(COLOURS) == 0


COMBINATIONS = tuple(
    Combination(colour=colour, shape=shape, motion=motion)
    for colour in range(len(COLOURS))
    for shape in range(len(SHAPES))
    for motion in range(len(MOTIONS))
)
TRAINED = tuple(combination for combination in COMBINATIONS if not combination.held_out)
HELD_OUT = tuple(combination for combination in COMBINATIONS if combination.held_out)


def draw_scenes(combinations: tuple[Combination, ...], count: int, generator: torch.Generator) -> SceneBatch:
    """``count`` scenes over the given combinations, uniform, everything else drawn at random."""
    table = torch.tensor([(c.colour, c.shape, c.motion) for c in combinations])
    colour_B, shape_B, motion_B = table[_choose(len(combinations), count, generator)].unbind(1)
    moves_B = motion_B < 4
    grows_B, shrinks_B = motion_B == MOTIONS.index("growing"), motion_B == MOTIONS.index("shrinking")
    size_B = _choose(len(SIZES), count, generator)
    speed_B = _choose(len(SPEEDS), count, generator)

    headings_M2 = torch.tensor([_HEADING.get(motion, (0.0, 0.0)) for motion in MOTIONS])
    pace_B = _uniform(torch.tensor(_SPEED_PX)[speed_B], generator)
    velocity_B2 = headings_M2[motion_B] * pace_B[:, None]

    rate_B = _uniform(torch.tensor([_GROWTH_PX]).expand(count, 2), generator)
    growth_B = rate_B * (grows_B.float() - shrinks_B.float())
    small_end_B = _uniform(torch.tensor([_SMALL_END_PX]).expand(count, 2), generator)
    steady_B = _uniform(torch.tensor(_RADIUS_PX)[size_B], generator)
    span = CLIP_FRAMES - 1
    radius_B = torch.where(
        grows_B, small_end_B, torch.where(shrinks_B, small_end_B + span * rate_B, steady_B)
    )

    # The middle of every path lies near the middle of the picture, so that no shape leaves it.
    off_centre_B2 = _OFF_CENTRE_PX * (2.0 * torch.rand(count, 2, generator=generator) - 1.0)
    start_B2 = SIDE_PX / 2.0 + off_centre_B2 - 0.5 * span * velocity_B2
    return SceneBatch(
        colour_B=colour_B,
        shape_B=shape_B,
        motion_B=motion_B,
        background_B=_choose(len(BACKGROUNDS), count, generator),
        size_B=torch.where(grows_B | shrinks_B, -1, size_B),
        speed_B=torch.where(moves_B, speed_B, -1),
        start_B2=start_B2,
        velocity_B2=velocity_B2,
        radius_B=radius_B,
        growth_B=growth_B,
    )


def _choose(options: int, count: int, generator: torch.Generator) -> Tensor:
    return torch.randint(options, (count,), generator=generator)


def _uniform(bounds_B2: Tensor, generator: torch.Generator) -> Tensor:
    low_B, high_B = bounds_B2.unbind(1)
    return low_B + (high_B - low_B) * torch.rand(low_B.shape[0], generator=generator)
