"""Pictures as coloured half blocks: the colours of the terminal are those of the pixels."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from restrike.cli.blocks import Blocks, fitted, strip

RED, BLUE, GREEN, WHITE = (252, 0, 0), (0, 0, 252), (0, 252, 0), (252, 252, 252)


def drawn(blocks: Blocks, width: int = 20) -> list[str]:
    console = Console(file=io.StringIO(), force_terminal=True, color_system="truecolor", width=width)
    console.print(blocks)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_two_pixels_are_one_character() -> None:
    frame_HWC = np.array([[RED, RED, GREEN], [BLUE, BLUE, WHITE]], np.uint8)
    (line,) = drawn(Blocks(frame_HWC[None], fps=1))
    assert "\x1b[38;2;252;0;0;48;2;0;0;252m▀▀\x1b[0m" in line
    assert "\x1b[38;2;0;252;0;48;2;252;252;252m▀\x1b[0m" in line


def test_a_last_odd_row_covers_both_halves() -> None:
    frame_HWC = np.array([[RED], [RED], [GREEN]], np.uint8)
    assert "38;2;0;252;0;48;2;0;252;0" in drawn(Blocks(frame_HWC[None], fps=1))[1]


def test_a_clip_plays_by_the_clock_and_repeats() -> None:
    frames_THWC = np.array([[[RED], [RED]], [[BLUE], [BLUE]]], np.uint8)
    now_s = [0.0]
    blocks = Blocks(frames_THWC, fps=4, clock=lambda: now_s[0])
    seen = []
    for now_s[0] in (0.0, 0.2, 0.3, 0.5):
        seen.append("252;0;0" in drawn(blocks)[0])
    assert seen == [True, True, False, True]


@pytest.mark.parametrize(
    ("side", "box", "expected"),
    [((8, 8), (64, 64), (64, 64)), ((8, 8), (70, 50), (48, 48)), ((64, 64), (32, 32), (32, 32))],
)
def test_fitted_sizes(side: tuple[int, int], box: tuple[int, int], expected: tuple[int, int]) -> None:
    frames_THWC = np.zeros((2, *side, 3), np.uint8)
    assert fitted(frames_THWC, *box).shape == (2, *expected, 3)


def test_fitted_keeps_the_aspect() -> None:
    assert fitted(np.zeros((1, 480, 832, 3), np.uint8), 64, 64).shape == (1, 36, 64, 3)


def test_shrinking_averages() -> None:
    frames_THWC = np.zeros((1, 4, 4, 3), np.uint8)
    frames_THWC[:, ::2] = 200
    assert (fitted(frames_THWC, 2, 2) == 100).all()


def test_a_strip_shows_the_first_and_the_last_frame() -> None:
    frames_THWC = np.arange(16, dtype=np.uint8).reshape(16, 1, 1, 1).repeat(3, axis=3)
    assert strip(frames_THWC, 4)[0, 0, :, 0].tolist() == [0, 0, 5, 0, 10, 0, 15]
    assert strip(frames_THWC[:1], 4).shape == (1, 1, 1, 3)
