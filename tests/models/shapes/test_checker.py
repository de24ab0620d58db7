"""The checker reads drawn clips right, and nothing from clips that show no one thing."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from restrike.models.shapes.checker import read_clips
from restrike.models.shapes.data import draw_clips
from restrike.models.shapes.evaluate import score_of_drawn
from restrike.models.shapes.scene import CLIP_FRAMES, COMBINATIONS, MOTIONS, SHAPES, SceneBatch, draw_scenes

FRAMES_T = torch.arange(CLIP_FRAMES)


def drawn(count: int, seed: int) -> tuple[SceneBatch, Tensor]:
    scenes = draw_scenes(COMBINATIONS, count, torch.Generator().manual_seed(seed))
    return scenes, draw_clips(scenes, FRAMES_T)


def test_drawn_clips_are_read_right() -> None:
    found = score_of_drawn(count=100, seed=11)
    assert min(found.right.values()) >= 0.99, found.missed


def test_noise_and_blur_do_not_mislead() -> None:
    scenes, clip_BCTHW = drawn(24, seed=5)
    noisy_BCTHW = clip_BCTHW + 0.05 * torch.randn(
        clip_BCTHW.shape, generator=torch.Generator().manual_seed(0)
    )
    right = [
        scenes.scene(index).shape == reading.shape and scenes.scene(index).motion == reading.motion
        for index, reading in enumerate(read_clips(noisy_BCTHW))
    ]
    assert sum(right) >= 23


def test_a_clip_played_backwards_shows_the_opposite_motion() -> None:
    opposite: dict[str, str] = dict(
        zip(MOTIONS, ("right", "left", "down", "up", "shrinking", "growing", "resting"), strict=True)
    )
    scenes, clip_BCTHW = drawn(40, seed=6)
    readings = read_clips(clip_BCTHW.flip(2))
    assert [reading.motion for reading in readings] == [opposite[scenes.scene(i).motion] for i in range(40)]


def test_a_still_has_no_motion() -> None:
    scenes, clip_BCTHW = drawn(16, seed=7)
    for index, reading in enumerate(read_clips(clip_BCTHW[:, :, :1])):
        assert reading.motion is None
        assert reading.colour == scenes.scene(index).colour
        assert reading.background == scenes.scene(index).background


def test_nothing_is_read_from_noise() -> None:
    clip_BCTHW = torch.rand(4, 3, CLIP_FRAMES, 64, 64, generator=torch.Generator().manual_seed(1)) * 2 - 1
    assert {reading.shape for reading in read_clips(clip_BCTHW)} == {None}


def test_an_empty_clip_has_no_shape() -> None:
    scenes, clip_BCTHW = drawn(6, seed=8)
    empty_BCTHW = clip_BCTHW[:, :, :, :1, :1].expand_as(clip_BCTHW)
    for index, reading in enumerate(read_clips(empty_BCTHW)):
        assert reading.shape is None
        assert reading.background == scenes.scene(index).background


def test_two_shapes_at_once_are_no_shape() -> None:
    scenes = draw_scenes(COMBINATIONS, 24, torch.Generator().manual_seed(9))
    left, right = (
        draw_clips(replace(scenes, start_B2=torch.tensor([x, 32.0]).expand(24, 2)), FRAMES_T)
        for x in (17.0, 47.0)
    )
    ground = draw_clips(replace(scenes, start_B2=torch.full((24, 2), 999.0)), FRAMES_T)
    both = left + right - ground
    assert {reading.shape for reading in read_clips(both.clamp(-1, 1))} == {None}


def test_a_shape_that_jumps_has_no_motion() -> None:
    _, clip_BCTHW = drawn(12, seed=10)
    shuffled_BCTHW = clip_BCTHW[
        :, :, torch.tensor([0, 16, 1, 15, 2, 14, 3, 13, 4, 12, 5, 11, 6, 10, 7, 9, 8])
    ]
    moving = [reading.motion for reading in read_clips(clip_BCTHW)]
    for before, reading in zip(moving, read_clips(shuffled_BCTHW), strict=True):
        assert before == "resting" or reading.motion != before


def test_every_shape_is_told_from_every_other() -> None:
    scenes, clip_BCTHW = drawn(60, seed=12)
    read = {(scenes.scene(i).shape, reading.shape) for i, reading in enumerate(read_clips(clip_BCTHW))}
    assert read == {(shape, shape) for shape in SHAPES}
