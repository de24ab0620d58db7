"""Scores of pictures and clips, and choosing by them."""

from __future__ import annotations

from typing import get_args

import cv2
import numpy as np
import pytest
import torch

from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.errors import Refused
from restrike.models.shapes.captions import caption
from restrike.models.shapes.data import draw_clips
from restrike.models.shapes.scene import CLIP_FRAMES, COMBINATIONS, draw_scenes
from restrike.workflow.tasks.colour import grade
from restrike.workflow.tasks.judge import best, rank, score, scores
from restrike.workflow.tasks.picture import blank, blur, resize
from restrike.workflow.tasks.scorers import SCORERS, Name
from restrike.workflow.tasks.upscale import by_filter
from restrike.workflow.values import Clip

from .making import disc, picture


def test_every_scorer_is_named_and_described() -> None:
    assert set(SCORERS) == set(get_args(Name))
    assert all(scorer.summary.endswith(".") for scorer in SCORERS.values())


def test_scores_of_flat_pictures() -> None:
    ground = blank(16, 16, "#808080")
    assert score(ground, "brightness") == pytest.approx(128 / 255)
    for name in ("contrast", "sharpness", "colourfulness", "motion"):
        assert score(ground, name) == pytest.approx(0, abs=1e-9)


def test_more_is_more() -> None:
    clip = picture(48)
    assert score(clip, "sharpness") > score(blur(clip, 1.0), "sharpness")
    assert score(grade(clip, saturation=1.5), "colourfulness") > score(clip, "colourfulness")
    assert score(grade(clip, contrast=1.5), "contrast") > score(clip, "contrast")
    assert score(grade(clip, exposure=1.0), "brightness") > score(clip, "brightness")
    assert score(disc(6), "motion") > score(disc(30), "motion") > 0


def test_likeness_to_a_reference() -> None:
    clip = picture(32)
    assert score(clip, "psnr", clip) == 100.0
    assert score(clip, "ssim", clip) == pytest.approx(1.0)
    worse = [blur(clip, radius) for radius in (0.5, 1.0, 2.0)]
    for name in ("psnr", "ssim"):
        found = scores(worse, name, clip)
        assert found == sorted(found, reverse=True)
    shifted = Clip(frames_THWC=np.clip(clip.frames_THWC.astype(int) + 10, 0, 255).astype(np.uint8))
    assert score(shifted, "psnr", clip) == pytest.approx(10 * np.log10(255**2 / 100))
    assert score(disc(4), "psnr", disc(4)) == 100.0
    assert score(disc(4), "psnr", picture()) < 100.0


def test_ssim_is_that_of_the_paper() -> None:
    """Against the formula written with OpenCV's Gaussian window of 11 pixels and sigma 1.5."""
    a, b = picture(40), blur(picture(40), 1.2)
    grey = [clip.frames_THWC[0].astype(np.float64) @ (0.299, 0.587, 0.114) for clip in (a, b)]

    def weighed(values):
        return cv2.GaussianBlur(values, (11, 11), 1.5)[5:-5, 5:-5]

    x, y = grey
    mx, my = weighed(x), weighed(y)
    vx, vy, cov = weighed(x * x) - mx**2, weighed(y * y) - my**2, weighed(x * y) - mx * my
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    expected = ((2 * mx * my + c1) * (2 * cov + c2) / ((mx**2 + my**2 + c1) * (vx + vy + c2))).mean()
    assert score(b, "ssim", a) == pytest.approx(expected, abs=1e-9)


def test_what_a_scorer_does_not_use_is_refused() -> None:
    with pytest.raises(Refused, match="'brightness' does not use 'reference'"):
        score(picture(), "brightness", picture())
    with pytest.raises(Refused, match="'psnr' needs 'reference'"):
        score(picture(), "psnr")
    with pytest.raises(Refused, match="'caption' needs 'expected'"):
        score(picture(), "caption")
    with pytest.raises(Refused, match="the reference is 8x8, the clip 32x32"):
        score(picture(), "ssim", resize(picture(), 8, 8))
    with pytest.raises(Refused, match="the reference has 3 frames, the clip 4"):
        score(disc(4), "psnr", disc(3))


def drawn(count: int) -> list[tuple[Clip, str]]:
    """Clips of the shapes' own artist with what they show."""
    scenes = draw_scenes(COMBINATIONS, count, torch.Generator().manual_seed(0))
    clips_BCTHW = draw_clips(scenes, torch.arange(CLIP_FRAMES))
    frames_BTHWC = ((clips_BCTHW.permute(0, 2, 3, 4, 1) + 1) * 127.5).round().to(torch.uint8).numpy()
    return [(Clip(frames_THWC=frames_BTHWC[i], fps=8.0), caption(scenes.scene(i))) for i in range(count)]


def test_a_clip_is_scored_by_its_caption() -> None:
    pairs = drawn(6)
    assert [score(clip, "caption", expected=text) for clip, text in pairs] == [1.0] * 6
    clip, text = pairs[0]
    colour = next(word for word in ("red", "blue") if word not in text)
    wrong = " ".join(
        colour if word in ("red", "orange", "yellow", "green", "cyan", "blue", "purple", "pink") else word
        for word in text.split()
    )
    assert score(clip, "caption", expected=wrong) == 0.75
    with pytest.raises(Refused, match="names no colour"):
        score(clip, "caption", expected="a house")
    with pytest.raises(Refused, match="several colours: red, blue"):
        score(clip, "caption", expected="a red or blue circle")
    with pytest.raises(Refused, match="reads 64x64 pixels, the clip is 32x32"):
        score(disc(), "caption", expected="a red circle")


def test_digits_of_the_model_are_read(engine: Engine) -> None:
    words = ("zero", "three", "seven")
    made = [engine.generate("digits", Request(prompt=f"a {word}", seed=7)).picture for word in words]
    digits = [Clip(frames_THWC=picture.frames_THWC) for picture in made]
    for word, digit in zip(words, digits, strict=True):
        found = scores(digits, "digit", expected=f"a {word}")
        assert best(digits, found) is digit
        assert score(digit, "digit", expected=word) > 0
        enlarged = by_filter(digit, 8, "nearest")
        assert score(enlarged, "digit", expected=word) == pytest.approx(score(digit, "digit", expected=word))
    with pytest.raises(Refused, match="takes one picture"):
        score(disc(), "digit", expected="a zero")


def test_choice_is_by_score_and_of_equals_the_first() -> None:
    items = ["a", "b", "c", "d"]
    points = [1.0, 3.0, 3.0, 2.0]
    assert best(items, points) == "b"
    assert best(items, points, "lowest") == "a"
    assert rank(items, points) == ["b", "c", "d", "a"]
    assert rank(items, points, 2, "lowest") == ["a", "d"]
    with pytest.raises(Refused, match="4 scores for 3 items"):
        best(items[:3], points)
