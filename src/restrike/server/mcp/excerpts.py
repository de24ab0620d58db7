"""Files cut down to a number of bytes, so that an agent sees what was made without being flooded by it."""

from __future__ import annotations

import io
import wave
from pathlib import Path
from typing import Any

from restrike.errors import Refused

_FRAMES = 4
_SIDES_PX = (1024, 768, 512, 384, 256, 192, 128, 64)
_MIME_TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp"}
_MIME_TYPES |= {".gif": "image/gif"}


def picture_within(path: Path, most_bytes: int) -> tuple[bytes, str, str] | None:
    """A picture as it is, or made smaller, as bytes, their type, and what was done; None if none is so small.

    Raises Refused for a file that holds no picture.
    """
    if path.stat().st_size <= most_bytes:
        return path.read_bytes(), _MIME_TYPES[path.suffix.lower()], "whole"
    from PIL import Image

    try:
        with Image.open(path) as picture:
            return _smaller(picture.convert("RGB"), most_bytes, "made smaller")
    except Image.UnidentifiedImageError as error:
        raise Refused("it holds no picture") from error


def strip_within(path: Path, most_bytes: int) -> tuple[bytes, str, str] | None:
    """Frames of a clip, evenly spaced in time, side by side; raises Refused for a file that holds no clip."""
    import numpy as np
    from PIL import Image

    from restrike.media import read

    frames_THWC = read(path).frames_THWC
    count = min(_FRAMES, len(frames_THWC))
    chosen = np.linspace(0, len(frames_THWC) - 1, count).round().astype(int)
    strip_HWC = np.concatenate([frames_THWC[index] for index in chosen], axis=1)
    return _smaller(Image.fromarray(strip_HWC), most_bytes, f"frames {', '.join(map(str, chosen))}")


def sound_within(path: Path, most_bytes: int) -> tuple[bytes, str] | None:
    """The beginning of a WAV file, as a whole file; None if not a tenth of a second fits."""
    with wave.open(str(path), "rb") as file:
        rate_hz, frame_bytes = file.getframerate(), file.getnchannels() * file.getsampwidth()
        count = min(file.getnframes(), (most_bytes - 64) // frame_bytes)
        if count * 10 < min(rate_hz, file.getnframes() * 10):
            return None
        written = io.BytesIO()
        with wave.open(written, "wb") as excerpt:
            excerpt.setparams(file.getparams())
            excerpt.writeframes(file.readframes(count))
        whole = count == file.getnframes()
    return written.getvalue(), "whole" if whole else f"the first {count / rate_hz:.1f} s"


def text_within(path: Path, most_bytes: int) -> tuple[str, str]:
    """The beginning of a text."""
    with path.open("rb") as file:
        data = file.read(most_bytes)
        whole = not file.read(1)
    return data.decode("utf-8", errors="ignore"), "whole" if whole else f"the first {len(data)} bytes"


def _smaller(picture: Any, most_bytes: int, as_what: str) -> tuple[bytes, str, str] | None:
    for side_px in _SIDES_PX:
        small = picture.copy()
        small.thumbnail((side_px * (_FRAMES if picture.width > 2 * picture.height else 1), side_px))
        written = io.BytesIO()
        small.save(written, format="jpeg", quality=85)
        if written.tell() <= most_bytes:
            return written.getvalue(), "image/jpeg", as_what
    return None
