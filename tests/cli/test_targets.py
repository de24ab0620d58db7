"""Names and kinds of files, without making any picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from restrike.cards import registry
from restrike.cards.card import Task
from restrike.cards.request import Arguments, Request, resolve
from restrike.cli.targets import Wish, scale_for, slug, targets_for
from restrike.errors import NotFound, Refused
from restrike.media import Mp4, Png, WebM, WebP

NOTHING_SAID = Wish(output=None, like=None, lossless=False, must_be_lossless=False)


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Arguments:
    monkeypatch.chdir(tmp_path)
    return resolve(registry.card("digits"), Request(prompt="a seven", seed=7))[1]


@pytest.mark.parametrize(
    ("prompt", "name"),
    [
        ("A red circle, moving LEFT!", "a-red-circle-moving-left"),
        ("../../etc/passwd", "etc-passwd"),
        ("红色的圆", "红色的圆"),
        ("***", "picture"),
        ("word " * 30, "word-word-word-word-word-word-word-word-word"),
        ("x" * 300, "x" * 48),
    ],
)
def test_slug(prompt: str, name: str) -> None:
    assert slug(prompt) == name


@pytest.mark.parametrize(
    ("width", "height", "scale"),
    [(8, 8, 32), (64, 64, 4), (100, 80, 4), (255, 300, 2), (256, 256, 1), (832, 480, 1)],
)
def test_scale_makes_the_shorter_side_visible(width: int, height: int, scale: int) -> None:
    assert scale_for(width, height) == scale


def test_a_clip_is_an_mp4_and_a_still_a_png(arguments: Arguments) -> None:
    clip = targets_for(replace(arguments, frames=16), NOTHING_SAID, None)[0]
    still = targets_for(arguments, NOTHING_SAID, None)[0]
    assert (clip.path.name, clip.container) == ("a-seven-7.mp4", Mp4())
    assert (still.path.name, still.container) == ("a-seven-7.png", Png())


def test_a_clip_that_must_be_lossless_is_a_webm(arguments: Arguments) -> None:
    wish = replace(NOTHING_SAID, must_be_lossless=True)
    target = targets_for(replace(arguments, frames=16), wish, None)[0]
    assert (target.path.suffix, target.container) == (".webm", WebM(lossless=True))


def test_the_length_that_a_pipeline_chooses_is_a_clip_if_that_is_its_task(arguments: Arguments) -> None:
    left_open = replace(arguments, task=Task.TEXT_TO_VIDEO, left_open=frozenset({"frames"}))
    assert targets_for(left_open, NOTHING_SAID, None)[0].path.suffix == ".mp4"
    with pytest.raises(Refused, match="PNG holds one picture"):
        targets_for(left_open, replace(NOTHING_SAID, output=Path("x.png")), None)


def test_a_still_kind_is_not_taken_from_a_file_for_a_clip(arguments: Arguments) -> None:
    wish = replace(NOTHING_SAID, like=Path("a.png"))
    assert targets_for(replace(arguments, frames=2), wish, None)[0].path.suffix == ".mp4"


def test_recorded_losslessness_follows_the_kind(arguments: Arguments) -> None:
    wish = replace(NOTHING_SAID, lossless=True, output=Path("a.webp"))
    assert targets_for(arguments, wish, None)[0].container == WebP(lossless=True)
    assert targets_for(arguments, replace(wish, output=Path("a.jpg")), None)[0].container.name == "JPEG"


def test_each_of_several_files_is_checked(arguments: Arguments) -> None:
    Path("x-1.png").mkdir()
    with pytest.raises(Refused, match=r"x-1\.png"):
        targets_for(replace(arguments, items=(0, 1)), replace(NOTHING_SAID, output=Path("x.png")), None)
    with pytest.raises(NotFound, match="gone"):
        targets_for(arguments, replace(NOTHING_SAID, output=Path("gone/x.png")), None)


def test_the_scale_counts_for_what_a_kind_can_hold(arguments: Arguments) -> None:
    odd = replace(arguments, width=9, height=9, frames=2)
    assert targets_for(odd, NOTHING_SAID, 2)[0].container == Mp4()
    with pytest.raises(Refused, match="even"):
        targets_for(odd, NOTHING_SAID, 1)
