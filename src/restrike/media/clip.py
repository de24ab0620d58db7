"""Pictures and sound in memory: the arrays that are written and read, and their checks. No files here.

Axes: T frames, H height, W width, C channels (red, green, blue); for sound C channels, N samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from restrike.errors import Refused
from restrike.media.containers import Container
from restrike.media.provenance import Provenance

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Audio:
    """Sound: `samples_CN` float32 in [-1, 1] (louder is clipped), one or two channels, at `rate_hz`."""

    samples_CN: NDArray[np.float32]
    rate_hz: int

    def __post_init__(self) -> None:
        import numpy as np

        samples_CN = self.samples_CN
        shape = samples_CN.shape
        if samples_CN.dtype != "float32" or len(shape) != 2 or shape[0] not in (1, 2) or not shape[1]:
            raise Refused(f"audio must be float32 of shape (1 or 2, samples), not {samples_CN.dtype} {shape}")
        if not np.isfinite(samples_CN).all():
            raise Refused("audio holds samples that are not finite")
        if not 8_000 <= self.rate_hz <= 192_000:
            raise Refused(f"audio rate must be from 8000 to 192000 Hz, not {self.rate_hz}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Media:
    """A file read back.

    `frames_THWC` uint8 RGB (one frame for a picture); `fps` is None for a single picture; `provenance` is
    None when another program made the file; `container` has default options, for a file does not tell them.
    """

    frames_THWC: NDArray[np.uint8]
    fps: float | None
    provenance: Provenance | None
    container: Container
    audio: Audio | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Decoded:
    """What one codec found in a file; `text` is the note that may be a provenance."""

    frames_THWC: NDArray[np.uint8]
    fps: float | None
    text: str | None
    audio: Audio | None = None


def check_frames(frames_THWC: NDArray[np.uint8]) -> None:
    """Refuse anything but uint8 RGB frames with at least one pixel."""
    shape = frames_THWC.shape
    if frames_THWC.dtype != "uint8" or len(shape) != 4 or shape[3] != 3 or 0 in shape:
        raise Refused(
            f"frames must be uint8 of shape (frames, height, width, 3), not {frames_THWC.dtype} {shape}"
        )


def check_unpacked(frame_count: int, height_px: int, width_px: int, limit_bytes: int) -> None:
    """Refuse a file that unpacks to more than `limit_bytes` of pixels: a small file can claim any size."""
    unpacked_bytes = frame_count * height_px * width_px * 3
    if unpacked_bytes > limit_bytes:
        raise Refused(
            f"{frame_count} frames of {width_px}x{height_px} unpack to {unpacked_bytes / 1e6:,.0f} MB, "
            f"the limit is {limit_bytes / 1e6:,.0f} MB"
        )


def enlarge(frames_THWC: NDArray[np.uint8], factor: int) -> NDArray[np.uint8]:
    """Each pixel as a square of `factor` x `factor`: tiny pictures made visible without inventing detail."""
    if factor < 1:
        raise Refused(f"the enlargement factor must be 1 or more, not {factor}")
    return frames_THWC.repeat(factor, axis=1).repeat(factor, axis=2)
