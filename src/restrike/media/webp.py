"""WebP: one picture or an animation, lossy or lossless, with a note as EXIF user comment.

Pillow encodes each frame; the animation is put together here, because libwebp's own animation writer drops a
frame that equals the one before. Layout of the file: the WebP container specification (RIFF chunks).
"""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING

from restrike.media.animation import changed_box, delays
from restrike.media.containers import WebP

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.WebPImagePlugin import WebPImageFile

_EXIF_IFD = 0x8769
_USER_COMMENT = 0x9286
_ASCII = b"ASCII\0\0\0"
_HAS_EXIF, _HAS_ANIMATION, _DO_NOT_BLEND = 0x08, 0x02, 0x02


def encode_webp(frames_THWC: NDArray[np.uint8], options: WebP, fps: float | None, text: str | None) -> bytes:
    exif = _exif(text) if text is not None else b""
    frame_count, height_px, width_px, _ = frames_THWC.shape
    if frame_count == 1 or fps is None:
        return _encode_picture(frames_THWC[0], options, exif)
    flags = _HAS_ANIMATION | (_HAS_EXIF if exif else 0)
    chunks = [
        _chunk(b"VP8X", bytes([flags, 0, 0, 0]) + _uint24(width_px - 1) + _uint24(height_px - 1)),
        _chunk(b"ANIM", struct.pack("<IH", 0, 0 if options.loop else 1)),
    ]
    for i, delay_ms in enumerate(delays(frame_count, fps, 1000)):
        box = _box(frames_THWC, i, options)
        chunks.append(_frame_chunk(frames_THWC[i], box, delay_ms, options))
    if exif:
        chunks.append(_chunk(b"EXIF", exif))
    return _chunk(b"RIFF", b"WEBP" + b"".join(chunks))


def webp_text(picture: WebPImageFile) -> str | None:
    """The note, without decoding the pixels."""
    comment = picture.getexif().get_ifd(_EXIF_IFD).get(_USER_COMMENT)
    if not isinstance(comment, bytes) or not comment.startswith(_ASCII):
        return None
    return comment.removeprefix(_ASCII).decode("utf-8", "replace")


def _box(frames_THWC: NDArray[np.uint8], i: int, options: WebP) -> tuple[int, int, int, int]:
    """What frame `i` draws: what changed; when lossy the whole frame, for a box leaves blur around it."""
    _, height_px, width_px, _ = frames_THWC.shape
    whole = (0, 0, width_px, height_px)
    if i == 0:
        return whole
    redraw = not options.lossless and (frames_THWC[i] != frames_THWC[i - 1]).any()
    return whole if redraw else changed_box(frames_THWC[i - 1], frames_THWC[i])


def _encode_picture(frame_HWC: NDArray[np.uint8], options: WebP, exif: bytes) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(frame_HWC).save(
        file, "WEBP", lossless=options.lossless, quality=options.quality, method=4, exif=exif
    )
    return file.getvalue()


def _frame_chunk(
    frame_HWC: NDArray[np.uint8], box: tuple[int, int, int, int], delay_ms: int, options: WebP
) -> bytes:
    left, top, right, bottom = box
    picture = _encode_picture(frame_HWC[top:bottom, left:right], options, b"")
    place = (left // 2, top // 2, right - left - 1, bottom - top - 1, delay_ms)
    header = b"".join(_uint24(value) for value in place) + bytes([_DO_NOT_BLEND])
    # A picture without note or alpha is a RIFF header (12 bytes) and one bitstream chunk.
    return _chunk(b"ANMF", header + picture[12:])


def _exif(text: str) -> bytes:
    from PIL import Image

    exif = Image.Exif()
    exif.get_ifd(_EXIF_IFD)[_USER_COMMENT] = _ASCII + text.encode("ascii")
    return exif.tobytes().removeprefix(b"Exif\0\0")


def _chunk(name: bytes, payload: bytes) -> bytes:
    return name + struct.pack("<I", len(payload)) + payload + b"\0" * (len(payload) % 2)


def _uint24(value: int) -> bytes:
    return value.to_bytes(3, "little")
