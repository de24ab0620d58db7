"""Which container a path asks for, and what it cannot hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from restrike.errors import Refused, Unknown
from restrike.media import Container, Gif, Jpeg, Mp4, Png, WebM, WebP, check_target, container_for
from restrike.media.containers import check_fits


@pytest.mark.parametrize(
    ("name", "container"),
    [
        ("a.png", Png()),
        ("a.JPG", Jpeg()),
        ("a.jpeg", Jpeg()),
        ("a.webp", WebP()),
        ("b.mp4/a.gif", Gif()),
        ("a.b.mp4", Mp4()),
        ("a.webm", WebM()),
    ],
)
def test_the_suffix_chooses(name: str, container: Container) -> None:
    assert container_for(name) == container


@pytest.mark.parametrize("name", ["a.avi", "a", "a.", ".png", "a.mp4 "])
def test_an_unknown_suffix_lists_those_that_exist(name: str) -> None:
    with pytest.raises(Unknown, match=r"Known: .gif, .jpeg, .jpg, .mp4, .png, .webm, .webp"):
        container_for(name)


@pytest.mark.parametrize(("name", "near"), [("a.bmp", ".png"), ("a.TIFF", ".png"), ("a.mov", ".mp4")])
def test_for_a_kind_of_other_programs_one_that_holds_the_same_is_named(name: str, near: str) -> None:
    with pytest.raises(Unknown, match=f"did you mean '{near}'"):
        container_for(name)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Png(level=10), "PNG: level must be a whole number from 0 to 9, not 10"),
        (lambda: Jpeg(quality=0), "from 1 to 100, not 0"),
        (lambda: WebP(quality=101), "not 101"),
        (lambda: Mp4(crf=0), "from 1 to 51"),
        (lambda: Mp4(crf=float("nan")), "not nan"),  # pyright: ignore[reportArgumentType]
        (lambda: WebM(crf=True), "not True"),
    ],
)
def test_an_option_out_of_range_is_refused(make: Callable[[], Container], named: str) -> None:
    with pytest.raises(Refused, match=named):
        make()


def fits(container: Container, **changes: Any) -> None:
    shape = {"frame_count": 16, "height_px": 64, "width_px": 64, "fps": 16.0, "has_audio": False}
    check_fits(container, **(shape | changes))


@pytest.mark.parametrize(
    ("container", "changes", "named"),
    [
        (Png(), {}, "PNG holds one picture, not 16 frames; write .mp4"),
        (Jpeg(), {}, "JPEG holds one picture"),
        (Mp4(), {"width_px": 65}, "even width and height, not 65x64; write .webm"),
        (WebP(), {"height_px": 20_000}, "at most 16383 pixels a side, not 64x20000"),
        (Gif(), {"has_audio": True}, "GIF holds no sound; write .mp4 or .webm"),
        (Mp4(), {"fps": None}, "needs a frame rate"),
        (WebM(), {"fps": None, "frame_count": 1}, "needs a frame rate"),
        (Gif(), {"fps": 60.0}, "at most 50 frames a second, not 60"),
        (Mp4(), {"fps": float("nan")}, "not nan"),
        (WebM(), {"fps": -1.0}, "not -1"),
        (WebP(), {"fps": float("inf")}, "not inf"),
    ],
)
def test_what_a_container_cannot_hold_is_refused(
    container: Container, changes: dict[str, Any], named: str
) -> None:
    with pytest.raises(Refused, match=named):
        fits(container, **changes)


def test_what_it_can_hold_is_not() -> None:
    fits(WebM(), width_px=65, height_px=33, has_audio=True)
    fits(Png(), frame_count=1, fps=None)
    fits(Gif(), frame_count=1, fps=60.0)


def test_options_of_another_container_are_refused(tmp_path: Any) -> None:
    with pytest.raises(Refused, match="is a PNG file, and the options given are those of MP4"):
        check_target(tmp_path / "a.png", frame_count=1, height_px=8, width_px=8, fps=None, options=Mp4())
