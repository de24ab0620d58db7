"""What tasks on pictures and clips share: frame by frame through Pillow, sizes, colours. No task is here.

Axes: T frames, H height, W width, C channels (red, green, blue, and opacity where there are four).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from restrike.errors import Refused
from restrike.media.clip import check_unpacked
from restrike.workflow.values import Clip

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

LIMIT_BYTES = 4 << 30
"""Most pixels that one task makes: 1,500 frames of 1280x720."""


def size_of(clip: Clip) -> tuple[int, int]:
    """Width and height in pixels."""
    return int(clip.frames_THWC.shape[2]), int(clip.frames_THWC.shape[1])


def length_of(clip: Clip) -> int:
    """How many frames it has."""
    return int(clip.frames_THWC.shape[0])


def rate_of(clip: Clip, purpose: str) -> float:
    """Its frames a second; refuses a still, saying what for."""
    if clip.fps is None:
        raise Refused(f"{purpose} needs a clip with a frame rate; a picture becomes one by video.hold")
    return float(clip.fps)


def check_size(frame_count: int, width_px: int, height_px: int) -> None:
    """Refuse a result of no pixels, or of more than the limit, before it is made."""
    if width_px < 1 or height_px < 1:
        raise Refused(f"the result would be {width_px}x{height_px} pixels")
    check_unpacked(frame_count, height_px, width_px, LIMIT_BYTES)


def check_opaque(clip: Clip, by: str) -> None:
    """Refuse a clip with opacity, for a task that would lose it."""
    if clip.frames_THWC.shape[-1] != 3:
        raise Refused(f"{by} takes opaque clips; lay this one over a picture.blank with picture.compose")


def with_frames(clip: Clip, frames_THWC: NDArray[np.uint8]) -> Clip:
    """The clip with other pictures and the same rate and sound."""
    import numpy as np

    return replace(clip, frames_THWC=np.ascontiguousarray(frames_THWC))


def each_image(clip: Clip, change: Callable[[Image], Image]) -> Clip:
    """The clip with every frame changed by Pillow; frames that equal the one before are changed once."""
    import numpy as np

    first_HWC = pixels(change(image(clip.frames_THWC[0])))
    out_THWC = np.empty((length_of(clip), *first_HWC.shape), np.uint8)
    out_THWC[0] = first_HWC
    for i in range(1, length_of(clip)):
        frame_HWC = clip.frames_THWC[i]
        again = np.array_equal(frame_HWC, clip.frames_THWC[i - 1])
        out_THWC[i] = out_THWC[i - 1] if again else pixels(change(image(frame_HWC)))
    return with_frames(clip, out_THWC)


def image(frame_HWC: NDArray[np.uint8]) -> Image:
    """A frame as a Pillow image."""
    import numpy as np
    from PIL import Image

    return Image.fromarray(np.ascontiguousarray(frame_HWC))


def pixels(picture: Image) -> NDArray[np.uint8]:
    """A Pillow image as a frame of three channels, or four with opacity."""
    import numpy as np

    return np.array(picture if picture.mode == "RGBA" else picture.convert("RGB"))


def still(picture: Image) -> Clip:
    """A Pillow image as a picture."""
    return Clip(frames_THWC=pixels(picture)[None])


def each_rgb(clip: Clip, change: Callable[[NDArray[np.float32]], NDArray[Any]]) -> Clip:
    """The clip with the colours of each frame changed: float32 from 0 to 1; opacity stays as it is."""
    import numpy as np

    out_THWC = clip.frames_THWC.copy()
    for i, frame_HWC in enumerate(clip.frames_THWC):
        changed_HWC = change(frame_HWC[..., :3].astype(np.float32) / 255)
        out_THWC[i, ..., :3] = to_bytes(changed_HWC)
    return with_frames(clip, out_THWC)


def to_bytes(colours: NDArray[Any]) -> NDArray[np.uint8]:
    """Values from 0 to 1 (others are clipped) as bytes, rounded to the nearest."""
    import numpy as np

    return (np.clip(colours, 0, 1) * 255 + 0.5).astype(np.uint8)


def rgba_of(colour: str) -> tuple[int, int, int, int]:
    """The four bytes of a colour name."""
    from PIL import ImageColor

    red, green, blue, *opacity = ImageColor.getcolor(colour, "RGBA")  # pyright: ignore[reportGeneralTypeIssues]
    return red, green, blue, opacity[0]


def fill_of(colour: str, channels: int) -> tuple[int, ...]:
    """The bytes of a colour for frames of three or four channels; refuses opacity where there is none."""
    if channels == 3 and rgba_of(colour)[3] != 255:
        raise Refused(f"the colour {colour} is not opaque, and the picture is")
    return rgba_of(colour)[:channels]


def with_opacity(frames_THWC: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The frames with four channels; those without opacity are opaque."""
    import numpy as np

    if frames_THWC.shape[-1] == 4:
        return frames_THWC
    opaque = np.full((*frames_THWC.shape[:-1], 1), 255, np.uint8)
    return np.concatenate([frames_THWC, opaque], axis=-1)


def alike(clips: Sequence[Clip]) -> list[NDArray[np.uint8]]:
    """The frames of clips that can be joined; refuses other sizes, gives all opacity when one has it."""
    first = size_of(clips[0])
    for index, clip in enumerate(clips[1:], start=1):
        if size_of(clip) != first:
            shown = "{}x{}".format(*size_of(clip)), "{}x{}".format(*first)
            raise Refused(
                f"clip {index} is {shown[0]}, clip 0 is {shown[1]}; make them one size with picture.resize"
            )
    deep = any(clip.frames_THWC.shape[-1] == 4 for clip in clips)
    return [with_opacity(clip.frames_THWC) if deep else clip.frames_THWC for clip in clips]


def one_rate(clips: Iterable[Clip], purpose: str) -> float:
    """The frame rate that all clips have; refuses others."""
    rates = [rate_of(clip, purpose) for clip in clips]
    for index, rate in enumerate(rates):
        if rate != rates[0]:
            raise Refused(
                f"clip {index} has {rate:g} frames a second, clip 0 has {rates[0]:g}; use video.rate first"
            )
    return rates[0]
