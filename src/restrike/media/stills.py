"""PNG and JPEG: one picture, with a note in its text chunks."""

from __future__ import annotations

import io
import re
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
_JPEG_PART = re.compile(rb"restrike (\d{1,3})/(\d{1,3}) (.*)", re.DOTALL)


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
        part = _JPEG_PART.fullmatch(content) if name == "COM" else None
        if part is not None:
            found[int(part[1])], total = part[3], int(part[2])
    if not found:
        return None
    if sorted(found) != list(range(1, total + 1)):
        raise Refused(f"its provenance is torn (part {len(found)} of {total} found)")
    return b"".join(found[i] for i in sorted(found)).decode("utf-8", "replace")


def _comments(text: bytes) -> bytes:
    parts = [text[i : i + _JPEG_PART_BYTES] for i in range(0, len(text), _JPEG_PART_BYTES)]
    segments = (b"restrike %d/%d " % (i, len(parts)) + part for i, part in enumerate(parts, start=1))
    return b"".join(b"\xff\xfe" + (len(s) + 2).to_bytes(2, "big") + s for s in segments)
