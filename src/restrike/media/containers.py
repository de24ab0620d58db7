"""The six containers that Restrike writes, each with its options, and which one a path asks for.

Nothing here touches pixels or the disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeAlias

from restrike.errors import Refused, Unknown


@dataclass(frozen=True, kw_only=True)
class Png:
    """One picture, lossless. `level`: 0 (fast) to 9 (small)."""

    name: ClassVar[str] = "PNG"
    suffixes: ClassVar[tuple[str, ...]] = (".png",)
    max_side_px: ClassVar[int] = 65535

    level: int = 4

    def __post_init__(self) -> None:
        _check_range(self, "level", 0, 9)


@dataclass(frozen=True, kw_only=True)
class Jpeg:
    """One picture, lossy, with full-resolution colour. `quality`: 1 to 100."""

    name: ClassVar[str] = "JPEG"
    suffixes: ClassVar[tuple[str, ...]] = (".jpg", ".jpeg")
    max_side_px: ClassVar[int] = 65500

    quality: int = 95

    def __post_init__(self) -> None:
        _check_range(self, "quality", 1, 100)


@dataclass(frozen=True, kw_only=True)
class WebP:
    """One picture or an animation. `lossless` keeps every pixel, and `quality` (0 to 100) is then effort.

    `loop`: an animation plays for ever, or once.
    """

    name: ClassVar[str] = "WebP"
    suffixes: ClassVar[tuple[str, ...]] = (".webp",)
    max_side_px: ClassVar[int] = 16383

    quality: int = 90
    lossless: bool = False
    loop: bool = True

    def __post_init__(self) -> None:
        _check_range(self, "quality", 0, 100)


@dataclass(frozen=True, kw_only=True)
class Gif:
    """One picture or an animation of at most 256 colours a frame. `loop`: it plays for ever, or once."""

    name: ClassVar[str] = "GIF"
    suffixes: ClassVar[tuple[str, ...]] = (".gif",)
    max_side_px: ClassVar[int] = 65535

    loop: bool = True


@dataclass(frozen=True, kw_only=True)
class Mp4:
    """H.264 video (4:2:0, plays everywhere) with AAC sound. `crf`: 1 (large) to 51 (small)."""

    name: ClassVar[str] = "MP4"
    suffixes: ClassVar[tuple[str, ...]] = (".mp4",)
    max_side_px: ClassVar[int] = 16384

    crf: int = 18

    def __post_init__(self) -> None:
        # x264 takes crf 0 as lossless, in a profile that browsers and phones do not play.
        _check_range(self, "crf", 1, 51)


@dataclass(frozen=True, kw_only=True)
class WebM:
    """VP9 video with Opus sound. `crf`: 0 (large) to 63 (small).

    `lossless` keeps every pixel (as RGB), and `crf` then has no effect.
    """

    name: ClassVar[str] = "WebM"
    suffixes: ClassVar[tuple[str, ...]] = (".webm",)
    max_side_px: ClassVar[int] = 16384

    crf: int = 20
    lossless: bool = False

    def __post_init__(self) -> None:
        _check_range(self, "crf", 0, 63)


Container: TypeAlias = Png | Jpeg | WebP | Gif | Mp4 | WebM

_KINDS: tuple[type[Container], ...] = (Png, Jpeg, WebP, Gif, Mp4, WebM)
_BY_SUFFIX: dict[str, type[Container]] = {suffix: kind for kind in _KINDS for suffix in kind.suffixes}
_MEANT = {
    **dict.fromkeys((".bmp", ".tif", ".tiff", ".tga", ".ppm", ".avif", ".heic", ".exr", ".psd"), ".png"),
    **dict.fromkeys((".jfif", ".jpe"), ".jpg"),
    **dict.fromkeys((".apng",), ".webp"),
    **dict.fromkeys((".avi", ".mkv", ".mov", ".m4v", ".mpg", ".mpeg", ".wmv", ".flv"), ".mp4"),
}
"""For kinds that other programs write the nearest one here: by what they hold, not by their spelling."""
_GIF_MAX_FPS = 50
_MIN_FPS, _MAX_FPS = 0.1, 1000


def container_for(path: str | Path) -> Container:
    """The container that the suffix of `path` asks for, with its default options; `Unknown` for any other."""
    suffix = Path(path).suffix
    kind = _BY_SUFFIX.get(suffix.lower())
    if kind is None:
        hint = f"(in '{path}')" if suffix else f"'{path}' has none, and it decides the kind."
        raise Unknown("file extension", suffix, _BY_SUFFIX, meant=meant(suffix), hint=hint)
    return kind()


def meant(suffix: str) -> str | None:
    """The suffix here that serves for one of another program's; None for a suffix nobody knows."""
    return _MEANT.get(suffix.lower())


def check_fits(
    container: Container,
    *,
    frame_count: int,
    height_px: int,
    width_px: int,
    fps: float | None,
    has_audio: bool = False,
) -> None:
    """Refuse a clip that `container` cannot hold, before a single pixel is made. Changes nothing to fit."""
    name = container.name
    if max(height_px, width_px) > container.max_side_px:
        raise Refused(
            f"{name} holds at most {container.max_side_px} pixels a side, not {width_px}x{height_px}"
        )
    if isinstance(container, Png | Jpeg) and frame_count > 1:
        raise Refused(
            f"{name} holds one picture, not {frame_count} frames; "
            "write .mp4, .webm, .gif or .webp, or ask for one frame"
        )
    if isinstance(container, Mp4) and (height_px % 2 or width_px % 2):
        raise Refused(
            f"MP4 (H.264) needs an even width and height, not {width_px}x{height_px}; "
            "write .webm, which takes any size, or change the size"
        )
    if has_audio and not isinstance(container, Mp4 | WebM):
        raise Refused(f"{name} holds no sound; write .mp4 or .webm")
    _check_rate(container, frame_count, fps)


def _check_rate(container: Container, frame_count: int, fps: float | None) -> None:
    if fps is None:
        if frame_count > 1 or isinstance(container, Mp4 | WebM):
            raise Refused(f"{container.name} needs a frame rate (fps)")
        return
    if not _MIN_FPS <= fps <= _MAX_FPS:  # false for NaN too
        raise Refused(f"fps must be from {_MIN_FPS} to {_MAX_FPS}, not {fps}")
    if isinstance(container, Gif) and frame_count > 1 and fps > _GIF_MAX_FPS:
        raise Refused(f"GIF plays at most {_GIF_MAX_FPS} frames a second, not {fps:g}; write .webp or .mp4")


def _check_range(container: Container, option: str, low: int, high: int) -> None:
    value = getattr(container, option)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise Refused(
            f"{container.name}: {option} must be a whole number from {low} to {high}, not {value!r}"
        )
