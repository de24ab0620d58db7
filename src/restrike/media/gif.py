"""GIF: 256 colours a frame, exact where a frame has no more, else the best palette with dithering.

The file is put together here, because Pillow's own writer drops a frame that equals the one before.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from restrike.media.animation import changed_box, delays
from restrike.media.containers import Gif

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.GifImagePlugin import GifImageFile
    from PIL.Image import Image

_MAX_COLOURS = 256
_TICKS_PER_S = 100
_KEEP_FRAME = 1


def encode_gif(frames_THWC: NDArray[np.uint8], options: Gif, fps: float | None, text: str | None) -> bytes:
    frame_count, height_px, width_px, _ = frames_THWC.shape
    # Every frame brings its own colour table, so the screen descriptor has none.
    parts = [b"GIF89a", struct.pack("<HHBBB", width_px, height_px, 0, 0, 0)]
    if frame_count > 1 and options.loop:
        parts.append(b"!\xff\x0bNETSCAPE2.0" + _blocks(b"\x01\x00\x00"))
    if text is not None:
        parts.append(b"!\xfe" + _blocks(text.encode("ascii")))
    ticks = delays(frame_count, fps, _TICKS_PER_S) if fps is not None else [0]
    for i, delay in enumerate(ticks):
        box = (0, 0, width_px, height_px) if i == 0 else changed_box(frames_THWC[i - 1], frames_THWC[i])
        parts.append(_frame(frames_THWC[i], box, delay))
    return b"".join([*parts, b";"])


def gif_text(picture: GifImageFile) -> str | None:
    """The note, without reading the pixels (it stands before them)."""
    comment = picture.info.get("comment")
    return comment.decode("utf-8", "replace") if isinstance(comment, bytes) else None


def _frame(frame_HWC: NDArray[np.uint8], box: tuple[int, int, int, int], delay: int) -> bytes:
    from PIL import Image
    from PIL.GifImagePlugin import getdata

    left, top, right, bottom = box
    indexed = _with_palette(Image.fromarray(frame_HWC[top:bottom, left:right]))
    return b"".join(
        getdata(
            indexed,
            (left, top),
            duration=delay * 1000 // _TICKS_PER_S,
            disposal=_KEEP_FRAME,
            include_color_table=True,
            interlace=0,
        )
    )


def _with_palette(picture: Image) -> Image:
    from PIL.Image import Dither, Quantize

    colours = picture.getcolors(_MAX_COLOURS)
    if colours is not None:
        return _exact(picture, sorted(colour for _, colour in colours))  # pyright: ignore[reportArgumentType]
    best = picture.quantize(_MAX_COLOURS, method=Quantize.MEDIANCUT)
    return picture.quantize(palette=best, dither=Dither.FLOYDSTEINBERG)


def _exact(picture: Image, colours: list[tuple[int, int, int]]) -> Image:
    import numpy as np
    from PIL import Image

    weights = np.array([1 << 16, 1 << 8, 1])
    values_HW = np.asarray(picture, dtype=np.int64) @ weights
    # Sorted colours are sorted values, so the position found is the palette index.
    indices_HW = np.searchsorted(np.array(colours) @ weights, values_HW).astype(np.uint8)
    indexed = Image.frombytes("P", picture.size, indices_HW.tobytes())
    indexed.putpalette([channel for colour in colours for channel in colour])
    return indexed


def _blocks(data: bytes) -> bytes:
    """GIF cuts extension data into runs of at most 255 bytes and ends them with an empty one."""
    runs = (data[i : i + 255] for i in range(0, len(data), 255))
    return b"".join(bytes([len(run)]) + run for run in runs) + b"\0"
