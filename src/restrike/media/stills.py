"""PNG and JPEG: one picture, with a note in its text chunks."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from restrike.errors import Refused
from restrike.media.containers import Jpeg, Png

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.JpegImagePlugin import JpegImageFile
    from PIL.PngImagePlugin import PngImageFile

_PNG_KEY = "restrike"
# A JPEG segment holds 65,533 bytes, so a long note is cut into numbered comments.
_JPEG_PART_BYTES = 65_000
_JPEG_PREFIX = b"restrike "


def encode_png(frame_HWC: NDArray[np.uint8], options: Png, text: str | None) -> bytes:
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    notes = PngInfo()
    if text is not None:
        notes.add_text(_PNG_KEY, text)
    file = io.BytesIO()
    Image.fromarray(frame_HWC).save(file, "PNG", compress_level=options.level, pnginfo=notes)
    return file.getvalue()


def png_text(picture: PngImageFile) -> str | None:
    """The note, without reading the pixels (it stands before them)."""
    text = picture.info.get(_PNG_KEY)
    return str(text) if text is not None else None


def encode_jpeg(frame_HWC: NDArray[np.uint8], options: Jpeg, text: str | None) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(frame_HWC).save(file, "JPEG", quality=options.quality, subsampling="4:4:4", optimize=True)
    data = file.getvalue()
    if text is None:
        return data
    # The JFIF segment must come first: start marker (2), its marker (2), its length (2, counting itself).
    after_jfif = 4 + int.from_bytes(data[4:6], "big")
    return data[:after_jfif] + _comments(text.encode("ascii")) + data[after_jfif:]


def jpeg_text(picture: JpegImageFile) -> str | None:
    """The note put together from its comments, without reading the pixels; `Refused` if one is missing."""
    found: dict[int, bytes] = {}
    total = 0
    for name, content in picture.applist:
        if name == "COM" and content.startswith(_JPEG_PREFIX):
            numbers, _, part = content.removeprefix(_JPEG_PREFIX).partition(b" ")
            index, _, count = numbers.partition(b"/")
            found[int(index)], total = part, int(count)
    if not found:
        return None
    if sorted(found) != list(range(1, total + 1)):
        raise Refused(f"its provenance is torn (part {len(found)} of {total} found)")
    return b"".join(found[i] for i in sorted(found)).decode("ascii")


def _comments(text: bytes) -> bytes:
    parts = [text[i : i + _JPEG_PART_BYTES] for i in range(0, len(text), _JPEG_PART_BYTES)]
    segments = (_JPEG_PREFIX + f"{i}/{len(parts)} ".encode() + part for i, part in enumerate(parts, start=1))
    return b"".join(b"\xff\xfe" + (len(s) + 2).to_bytes(2, "big") + s for s in segments)
