"""The four verbs on files: encode, write, read, and where a file came from. Codecs load when first used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from restrike.errors import NotFound, Refused, RestrikeError, Shortfall
from restrike.media.clip import Audio, Decoded, Media, check_frames
from restrike.media.containers import Container, Gif, Jpeg, Mp4, Png, WebM, WebP, check_fits, container_for
from restrike.media.provenance import Provenance, parse
from restrike.media.publish import check_writable, publish

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFAULT_LIMIT_BYTES = 4 << 30
"""Most pixels that a file may unpack to: 1,500 frames of 1280x720."""


def check_target(
    path: str | Path,
    *,
    frame_count: int,
    height_px: int,
    width_px: int,
    fps: float | None,
    options: Container | None = None,
    has_audio: bool = False,
) -> Container:
    """Refuse before the work what `write` would refuse after it; returns the container to be written."""
    container = _chosen(path, options)
    check_fits(
        container,
        frame_count=frame_count,
        height_px=height_px,
        width_px=width_px,
        fps=fps,
        has_audio=has_audio,
    )
    check_writable(path)
    return container


def write(
    path: str | Path,
    frames_THWC: NDArray[np.uint8],
    *,
    fps: float | None = None,
    options: Container | None = None,
    provenance: Provenance | None = None,
    audio: Audio | None = None,
) -> None:
    """Write frames (uint8 RGB) to `path`; its suffix chooses the container, `options` its settings.

    The file appears whole or not at all. The same frames, options and provenance give the same bytes.
    Raises `Unknown` (extension), `Refused` (the container cannot hold this, no permission), `NotFound`
    (no such folder), `Shortfall` (no space).
    """
    check_frames(frames_THWC)
    frame_count, height_px, width_px, _ = frames_THWC.shape
    container = check_target(
        path,
        frame_count=frame_count,
        height_px=height_px,
        width_px=width_px,
        fps=fps,
        options=options,
        has_audio=audio is not None,
    )
    publish(path, encode(frames_THWC, container, fps=fps, provenance=provenance, audio=audio))


def encode(
    frames_THWC: NDArray[np.uint8],
    container: Container,
    *,
    fps: float | None = None,
    provenance: Provenance | None = None,
    audio: Audio | None = None,
) -> bytes:
    """The bytes that `write` puts into a file. Raises `Refused` when `container` cannot hold this clip."""
    check_frames(frames_THWC)
    frame_count, height_px, width_px, _ = frames_THWC.shape
    check_fits(
        container,
        frame_count=frame_count,
        height_px=height_px,
        width_px=width_px,
        fps=fps,
        has_audio=audio is not None,
    )
    text = provenance.to_json() if provenance is not None else None
    return _encoded(frames_THWC, container, fps, text, audio)


def read(path: str | Path, *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> Media:
    """Read any of the six containers back; the content decides which, not the name.

    Raises `NotFound`, or `Refused` for a foreign or torn file and for one that unpacks to more than
    `limit_bytes`.
    """
    with _opened(path) as (file, kind):
        decoded = _decoded(file, kind, limit_bytes)
        return Media(
            frames_THWC=decoded.frames_THWC,
            fps=decoded.fps,
            provenance=parse(decoded.text) if decoded.text is not None else None,
            container=kind(),
            audio=decoded.audio,
        )


def read_picture(path: str | Path) -> NDArray[np.uint8]:
    """The pixels (HWC, uint8) of a file that holds one picture. Raises as `read`; refuses a clip."""
    frames_THWC = read(path).frames_THWC
    if len(frames_THWC) > 1:
        raise Refused(f"'{path}' holds {len(frames_THWC)} frames; give one picture")
    return frames_THWC[0]


def provenance_of(path: str | Path) -> Provenance | None:
    """What made the file, without decoding its pixels; None when another program did.

    Raises `NotFound`, or `Refused` for a foreign file or a torn provenance.
    """
    with _opened(path) as (file, kind):
        text = _text(file, kind)
        return parse(text) if text is not None else None


def _chosen(path: str | Path, options: Container | None) -> Container:
    by_suffix = container_for(path)
    if options is not None and type(options) is not type(by_suffix):
        raise Refused(
            f"'{path}' is a {by_suffix.name} file, and the options given are those of {options.name}"
        )
    return options or by_suffix


def _encoded(
    frames_THWC: NDArray[np.uint8],
    container: Container,
    fps: float | None,
    text: str | None,
    audio: Audio | None,
) -> bytes:
    match container:
        case Png():
            from restrike.media.stills import encode_png

            return encode_png(frames_THWC[0], container, text)
        case Jpeg():
            from restrike.media.stills import encode_jpeg

            return encode_jpeg(frames_THWC[0], container, text)
        case WebP():
            from restrike.media.webp import encode_webp

            return encode_webp(frames_THWC, container, fps, text)
        case Gif():
            from restrike.media.gif import encode_gif

            return encode_gif(frames_THWC, container, fps, text)
        case Mp4():
            from restrike.media.video import encode_mp4

            assert fps is not None  # by check_fits
            return encode_mp4(frames_THWC, container, fps, text, audio)
        case WebM():
            from restrike.media.video import encode_webm

            assert fps is not None
            return encode_webm(frames_THWC, container, fps, text, audio)


def _decoded(file: IO[bytes], kind: type[Container], limit_bytes: int) -> Decoded:
    if issubclass(kind, Mp4 | WebM):
        from restrike.media.video_reading import decode_video

        return decode_video(file, kind, limit_bytes)
    from restrike.media.pictures import decode_picture

    return decode_picture(file, kind, limit_bytes)


def _text(file: IO[bytes], kind: type[Container]) -> str | None:
    if issubclass(kind, Mp4 | WebM):
        from restrike.media.video_reading import video_text

        return video_text(file, kind)
    from restrike.media.pictures import picture_text

    return picture_text(file, kind)


@contextmanager
def _opened(path: str | Path) -> Iterator[tuple[IO[bytes], type[Container]]]:
    """The open file and its kind; whatever goes wrong inside becomes one line that names the file."""
    try:
        with open(path, "rb") as file:
            kind = _sniff(file.read(16))
            file.seek(0)
            yield file, kind
    except RestrikeError as error:
        raise type(error)(f"cannot read '{path}': {error.message}") from error
    except FileNotFoundError as error:
        raise NotFound(f"there is no file '{path}'") from error
    except IsADirectoryError as error:
        raise Refused(f"cannot read '{path}': it is a folder") from error
    except PermissionError as error:
        raise Refused(f"cannot read '{path}': no permission") from error
    except MemoryError as error:
        raise Shortfall(f"cannot read '{path}': out of memory") from error
    except Exception as error:
        # A file from a stranger makes the decoders raise anything: OSError, SyntaxError, struct.error, ...
        raise Refused(f"cannot read '{path}': it cannot be decoded ({_reason(error)})") from error


def _sniff(head: bytes) -> type[Container]:
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return Png
    if head.startswith(b"\xff\xd8\xff"):
        return Jpeg
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return WebP
    if head.startswith((b"GIF87a", b"GIF89a")):
        return Gif
    if head[4:8] == b"ftyp":
        return Mp4
    if head.startswith(b"\x1a\x45\xdf\xa3"):
        return WebM
    raise Refused("it is none of PNG, JPEG, WebP, GIF, MP4, WebM")


def _reason(error: Exception) -> str:
    """One line without the path, which FFmpeg's own text repeats."""
    text = str(getattr(error, "strerror", None) or error)
    return text.split("\n")[0] or type(error).__name__
