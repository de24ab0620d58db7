"""What GIF and WebP animations share: frame delays, and the rectangle that changed since the last frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def delays(frame_count: int, fps: float, ticks_per_s: int) -> list[int]:
    """Whole delays whose running sum is at most half a tick off: 16 fps in 1/100 s is 6, 6, 7, 6, ..."""
    ends = [round((i + 1) * ticks_per_s / fps) for i in range(frame_count)]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]


def changed_box(before_HWC: NDArray[np.uint8], after_HWC: NDArray[np.uint8]) -> tuple[int, int, int, int]:
    """The smallest (left, top, right, bottom) around all changed pixels, left and top even as WebP asks.

    Equal frames give one pixel: a frame that is not written at all would be lost when the file is read back.
    """
    changed_HW = (before_HWC != after_HWC).any(axis=2)
    rows = changed_HW.any(axis=1).nonzero()[0]
    columns = changed_HW.any(axis=0).nonzero()[0]
    if not len(rows):
        return 0, 0, 1, 1
    return int(columns[0]) // 2 * 2, int(rows[0]) // 2 * 2, int(columns[-1]) + 1, int(rows[-1]) + 1
