"""The vocabulary, the held-out rule and the geometry of drawn scenes."""

from __future__ import annotations

from collections import Counter

import torch

from restrike.models.shapes.scene import (
    CLIP_FRAMES,
    COLOURS,
    COMBINATIONS,
    HELD_OUT,
    MOTIONS,
    SHAPES,
    SIDE_PX,
    TRAINED,
    draw_scenes,
)


def test_one_combination_in_eight_is_held_out() -> None:
    assert len(COMBINATIONS) == len(COLOURS) * len(SHAPES) * len(MOTIONS)
    assert len(HELD_OUT) * 8 == len(COMBINATIONS)
    assert not set(HELD_OUT) & set(TRAINED)


def test_every_shape_and_motion_misses_exactly_one_colour() -> None:
    assert set(Counter((c.shape, c.motion) for c in HELD_OUT).values()) == {1}


def test_every_colour_shape_and_motion_is_trained_with_most_others() -> None:
    pairs = [
        Counter((c.colour, c.shape) for c in TRAINED),
        Counter((c.colour, c.motion) for c in TRAINED),
    ]
    assert min(min(pair.values()) for pair in pairs) >= 6


def test_drawn_scenes_stay_inside_the_picture_in_every_frame() -> None:
    scenes = draw_scenes(COMBINATIONS, 500, torch.Generator().manual_seed(1))
    for frame in (0, CLIP_FRAMES - 1):
        centre_B2 = scenes.start_B2 + frame * scenes.velocity_B2
        radius_B1 = (scenes.radius_B + frame * scenes.growth_B)[:, None]
        assert bool((centre_B2 - radius_B1 > 0).all())
        assert bool((centre_B2 + radius_B1 < SIDE_PX).all())


def test_scenes_come_from_the_generator_alone() -> None:
    first, again, other = (
        draw_scenes(TRAINED, 20, torch.Generator().manual_seed(seed)) for seed in (3, 3, 4)
    )
    assert torch.equal(first.start_B2, again.start_B2)
    assert not torch.equal(first.start_B2, other.start_B2)


def test_sizes_and_speeds_are_said_only_where_they_have_a_meaning() -> None:
    scenes = draw_scenes(COMBINATIONS, 200, torch.Generator().manual_seed(2))
    for index in range(len(scenes)):
        scene = scenes.scene(index)
        assert (scene.size is None) == (scene.motion in ("growing", "shrinking"))
        assert (scene.speed is None) == (scene.motion in ("growing", "shrinking", "resting"))
