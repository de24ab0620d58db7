"""Read MP4 and WebM (and what else their demuxers know: HEVC, AV1, ...) back as RGB frames and sound.

The demuxer is given an open file and a fixed format: a stranger's file can name no other file or address.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from restrike.errors import Refused
from restrike.media.clip import Decoded, check_unpacked
from restrike.media.containers import Mp4, WebM
from restrike.media.sound import join_sound
from restrike.media.video import NOTE_TAG, exact_scaling
from restrike.media.wholeness import check_mp4_whole, check_webm_whole

if TYPE_CHECKING:
    import numpy as np
    from av import AudioFrame, VideoFrame
    from av.container import InputContainer
    from numpy.typing import NDArray

_BYTES_PER_SAMPLE = 8  # two channels of float32
_FORMATS: dict[type[Mp4 | WebM], str] = {Mp4: "mp4", WebM: "matroska"}


def decode_video(file: IO[bytes], kind: type[Mp4 | WebM], limit_bytes: int) -> Decoded:
    """All frames, and the sound if there is any; raises what FFmpeg raises on a torn file."""
    import numpy as np
    from av import AudioFrame, VideoFrame

    (check_mp4_whole if kind is Mp4 else check_webm_whole)(file)
    with _opened(file, kind) as container:
        if not container.streams.video:
            raise Refused("it holds no pictures")
        video = container.streams.video[0]
        video.thread_type = "AUTO"
        audio = container.streams.audio[0] if container.streams.audio else None
        frames: list[NDArray[np.uint8]] = []
        sound: list[AudioFrame] = []
        sound_bytes = 0
        for frame in container.decode(*(stream for stream in (video, audio) if stream is not None)):
            if isinstance(frame, AudioFrame):
                sound.append(frame)
                sound_bytes += frame.samples * _BYTES_PER_SAMPLE
                if sound_bytes > limit_bytes:
                    raise Refused(f"its sound unpacks to more than the limit of {limit_bytes / 1e6:,.0f} MB")
            elif isinstance(frame, VideoFrame):
                check_unpacked(max(len(frames) + 1, video.frames), frame.height, frame.width, limit_bytes)
                frames.append(_rgb(frame))
        if not frames:
            raise Refused("it holds no pictures")
        return Decoded(
            frames_THWC=np.stack(frames),
            fps=float(video.average_rate) if video.average_rate else None,
            text=_text(container),
            audio=join_sound(sound, audio) if audio is not None else None,
        )


def video_text(file: IO[bytes], kind: type[Mp4 | WebM]) -> str | None:
    """The note in the video, without decoding its pictures."""
    with _opened(file, kind) as container:
        return _text(container)


@contextmanager
def _opened(file: IO[bytes], kind: type[Mp4 | WebM]) -> Iterator[InputContainer]:
    import av

    with av.open(file, "r", format=_FORMATS[kind], metadata_errors="replace") as container:
        yield container


def _text(container: InputContainer) -> str | None:
    return container.metadata.get(NOTE_TAG) or container.metadata.get(NOTE_TAG.upper())


def _rgb(frame: VideoFrame) -> NDArray[np.uint8]:
    import numpy as np

    frame_HWC = frame.to_ndarray(format="rgb24", interpolation=exact_scaling(), threads=1)
    # Phones store the picture as the sensor saw it, and how far to turn it counter-clockwise.
    return np.ascontiguousarray(np.rot90(frame_HWC, frame.rotation // 90), dtype=np.uint8)
