"""Laying one frame over another: where it goes, how opaque it is, how colours combine. No task is here.

Axes: H height, W width, C channels (red, green, blue, and opacity where there are four).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from restrike.workflow.tasks.frames import image, length_of, to_bytes, with_opacity
from restrike.workflow.values import Clip

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Blend = Literal["normal", "multiply", "screen", "add"]
Place = Literal[
    "top left", "top", "top right", "left", "centre", "right", "bottom left", "bottom", "bottom right"
]


def corner_of(anchor: str, base: tuple[int, int], overlay: tuple[int, int]) -> tuple[int, int]:
    """Where the overlay's top left corner goes on the base, in pixels; sizes are width and height."""
    across = 0.0 if "left" in anchor else 1.0 if "right" in anchor else 0.5
    down = 0.0 if "top" in anchor else 1.0 if "bottom" in anchor else 0.5
    return math.floor((base[0] - overlay[0]) * across), math.floor((base[1] - overlay[1]) * down)


def held(clip: Clip, i: int) -> NDArray[np.uint8]:
    """Frame `i`, or the last one after the end."""
    return clip.frames_THWC[min(i, length_of(clip) - 1)]


def layer(overlay: Clip, mask: Clip | None, i: int, opacity: float) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """The colours of frame `i`, and how opaque each pixel is, from 0 to 1."""
    import numpy as np

    frame_HWC = with_opacity(held(overlay, i))
    opacity_HW = frame_HWC[..., 3].astype(np.float32) / 255 * np.float32(opacity)
    if mask is not None:
        opacity_HW *= np.asarray(image(held(mask, i)).convert("L"), np.float32) / 255
    return frame_HWC[..., :3], opacity_HW


def lay_on(
    out_HWC: NDArray[np.uint8],
    top_HWC: NDArray[np.uint8],
    opacity_HW: NDArray[Any],
    corner: tuple[int, int],
    blend: str,
) -> None:
    """Lay a frame over `out_HWC`, the caller's own, by the "over" operator of Porter and Duff (1984)."""
    import numpy as np

    height, width = out_HWC.shape[:2]
    rows = slice(max(0, corner[1]), min(height, corner[1] + top_HWC.shape[0]))
    columns = slice(max(0, corner[0]), min(width, corner[0] + top_HWC.shape[1]))
    if rows.start >= rows.stop or columns.start >= columns.stop:
        return
    inner = (
        slice(rows.start - corner[1], rows.stop - corner[1]),
        slice(columns.start - corner[0], columns.stop - corner[0]),
    )
    if blend == "normal" and opacity_HW[inner].min() >= 1:
        out_HWC[rows, columns, :3] = top_HWC[inner]
        out_HWC[rows, columns, 3:] = 255
        return
    above = top_HWC[inner].astype(np.float32) / 255
    out_HWC[rows, columns] = _over(out_HWC[rows, columns], above, opacity_HW[inner][..., None], blend)


def _over(
    below_HWC: NDArray[np.uint8], above: NDArray[Any], share: NDArray[Any], blend: str
) -> NDArray[np.uint8]:
    import numpy as np

    below = below_HWC.astype(np.float32) / 255
    under = below[..., 3:] if below.shape[-1] == 4 else np.ones_like(share)
    # Where nothing lies below, there is nothing to combine with.
    colour = under * _blended(below[..., :3], above, blend) + (1 - under) * above
    total = share + under * (1 - share)
    mixed = (colour * share + below[..., :3] * under * (1 - share)) / np.maximum(total, 1e-9)
    joined = np.concatenate([mixed, total], axis=-1)[..., : below.shape[-1]]
    return to_bytes(joined)


def _blended(below: NDArray[Any], above: NDArray[Any], blend: str) -> NDArray[Any]:
    if blend == "multiply":
        return below * above
    if blend == "screen":
        return below + above - below * above
    return below + above if blend == "add" else above
