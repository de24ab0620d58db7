"""A picture in a terminal: two pixels a character, the upper one its ink and the lower one its ground.

Axes: T frames, H height, W width, C red, green, blue. Looks at pixels and never changes them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.color import Color
from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.segment import Segment
from rich.style import Style

if TYPE_CHECKING:
    import numpy as np

    Frames = np.ndarray[Any, Any]

UPPER_HALF = "▀"


def fitted(frames_THWC: Frames, width_px: int, height_px: int) -> Frames:
    """The frames as large as the box allows: enlarged by a whole factor, or averaged down."""
    import numpy as np

    _, height, width, _ = frames_THWC.shape
    factor = min(width_px // width, height_px // height)
    if factor >= 1:
        return frames_THWC.repeat(factor, axis=1).repeat(factor, axis=2)
    shrink = max(width / width_px, height / height_px)
    rows, row_counts = _edges(height, max(2, int(height / shrink)))
    columns, column_counts = _edges(width, max(1, int(width / shrink)))
    summed = np.add.reduceat(np.add.reduceat(frames_THWC.astype(np.float32), rows, 1), columns, 2)
    return (summed / (row_counts[:, None, None] * column_counts[:, None])).astype(np.uint8)


def strip(frames_THWC: Frames, count: int, gap_px: int = 1) -> Frames:
    """`count` frames, evenly spaced in time, side by side as one frame with black between."""
    import numpy as np

    chosen = np.linspace(0, len(frames_THWC) - 1, min(count, len(frames_THWC))).round().astype(int)
    _, height, _, _ = frames_THWC.shape
    gap_HWC = np.zeros((height, gap_px, 3), np.uint8)
    parts = [part for index in chosen for part in (frames_THWC[index], gap_HWC)][:-1]
    return np.concatenate(parts, axis=1)[None]


def _edges(size: int, parts: int) -> tuple[Any, Any]:
    """Where each of `parts` begins within `size`, and how long it is."""
    import numpy as np

    begins = np.arange(parts) * size // parts
    return begins, np.diff(np.append(begins, size))


class Blocks:
    """Frames for a terminal; a clip plays by the clock, a frame at a time, whenever it is drawn."""

    def __init__(self, frames_THWC: Frames, fps: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._frames_THWC = frames_THWC
        self._fps = fps
        self._clock = clock
        self._drawn: dict[int, list[list[Segment]]] = {}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        index = int(self._clock() * self._fps) % len(self._frames_THWC)
        if index not in self._drawn:
            self._drawn[index] = [_line(upper, lower) for upper, lower in _pairs(self._frames_THWC[index])]
        for line in self._drawn[index]:
            yield from line
            yield Segment.line()

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        width = self._frames_THWC.shape[2]
        return Measurement(width, width)


def _pairs(frame_HWC: Frames) -> Iterator[tuple[list[Any], list[Any]]]:
    """Rows two by two; a last odd row is drawn over itself."""
    # Four levels less in each colour are not seen, and let equal neighbours be drawn as one.
    rows = (frame_HWC & 0xFC).tolist()
    for index in range(0, len(rows), 2):
        yield rows[index], rows[min(index + 1, len(rows) - 1)]


def _line(upper: list[Any], lower: list[Any]) -> list[Segment]:
    cells = zip(map(tuple, upper), map(tuple, lower), strict=True)
    return [Segment(UPPER_HALF * len(list(run)), _style(*cell)) for cell, run in groupby(cells)]


@lru_cache(maxsize=4096)
def _style(ink: tuple[int, int, int], ground: tuple[int, int, int]) -> Style:
    return Style(color=Color.from_rgb(*ink), bgcolor=Color.from_rgb(*ground))
