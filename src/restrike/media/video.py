"""Write MP4 (H.264) and WebM (VP9): the same frames and options give the same bytes, on any number of cores.

Colour is BT.709, limited range, and the file says so; every player then shows the same picture.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING

from restrike.media.containers import Mp4, WebM
from restrike.media.sound import add_aac, add_opus, encode_sound

if TYPE_CHECKING:
    import numpy as np
    from av import Packet, VideoFrame
    from av.container import OutputContainer
    from av.video.stream import VideoStream
    from numpy.typing import NDArray

    from restrike.media.clip import Audio

NOTE_TAG = "comment"
"""Matroska writes the name in capitals; both containers show it in any player as the comment."""

# One thread: the number of threads decides how these encoders cut a frame, and so the bytes.
# Without `cpu-independent`, x264's vector code reads stale memory on small frames (its macroblock tree with
# B-frames): clips of 64x64 came out in several versions, and differently on other processors.
_X264 = {"preset": "medium", "threads": "1", "x264-params": "cpu-independent=1"}
_VP9 = {"deadline": "good", "cpu-used": "2", "threads": "1"}


def encode_mp4(
    frames_THWC: NDArray[np.uint8], options: Mp4, fps: float, text: str | None, audio: Audio | None
) -> bytes:
    import av

    file = io.BytesIO()
    # `faststart` moves the index to the front, for which it reads the file while it writes it.
    with av.open(
        file,
        "w",
        format="mp4",
        options={"movflags": "+faststart", "max_interleave_delta": "0"},
        io_open=lambda url, flags, options: _SecondReader(file),
    ) as output:
        video = output.add_stream("libx264", rate=_rate(fps), options={**_X264, "crf": str(options.crf)})
        video.pix_fmt = "yuv420p"
        sound = encode_sound(add_aac(output, audio), audio) if audio is not None else ()
        _fill(output, video, frames_THWC, text, sound)
    return file.getvalue()


def encode_webm(
    frames_THWC: NDArray[np.uint8], options: WebM, fps: float, text: str | None, audio: Audio | None
) -> bytes:
    import av

    file = io.BytesIO()
    with av.open(file, "w", format="webm", options={"max_interleave_delta": "0"}) as output:
        quality = {"lossless": "1"} if options.lossless else {"crf": str(options.crf), "b": "0"}
        video = output.add_stream("libvpx-vp9", rate=_rate(fps), options={**_VP9, **quality})
        video.pix_fmt = "gbrp" if options.lossless else "yuv420p"
        sound = encode_sound(add_opus(output, audio), audio) if audio is not None else ()
        _fill(output, video, frames_THWC, text, sound)
    return file.getvalue()


def _fill(
    output: OutputContainer,
    video: VideoStream,
    frames_THWC: NDArray[np.uint8],
    text: str | None,
    sound: Iterable[Packet],
) -> None:
    from av.container.core import Flags

    # No dates, no random track numbers, no library versions in the file.
    output.flags |= Flags.bitexact.value
    if text is not None:
        output.metadata[NOTE_TAG] = text
    video.height, video.width = frames_THWC.shape[1:3]
    _tag_colour(video)
    # Sound first: its packets are small, and the muxer holds them until the pictures beside them arrive.
    for packet in sound:
        output.mux(packet)
    rate = video.average_rate
    for i, frame_HWC in enumerate(frames_THWC):
        frame = _to_video_frame(frame_HWC, str(video.pix_fmt))
        frame.pts, frame.time_base = i, 1 / Fraction(rate or 1)
        output.mux(video.encode(frame))
    output.mux(video.encode(None))


def _tag_colour(video: VideoStream) -> None:
    from av.video.reformatter import ColorPrimaries, ColorRange, Colorspace, ColorTrc

    context = video.codec_context
    context.color_primaries = ColorPrimaries.BT709
    context.color_trc = ColorTrc.BT709
    if video.pix_fmt != "gbrp":
        context.colorspace = Colorspace.ITU709
        context.color_range = ColorRange.MPEG


def _to_video_frame(frame_HWC: NDArray[np.uint8], pixel_format: str) -> VideoFrame:
    import av
    from av.video.reformatter import ColorRange, Colorspace

    frame = av.VideoFrame.from_ndarray(frame_HWC, format="rgb24")
    if pixel_format == "gbrp":
        return frame.reformat(format="gbrp", threads=1)
    return frame.reformat(
        format=pixel_format,
        dst_colorspace=Colorspace.ITU709,
        dst_color_range=ColorRange.MPEG,
        interpolation=exact_scaling(),
        threads=1,
    )


def exact_scaling() -> int:
    """Colours rounded exactly and alike on every processor; the default is a level or two too dark."""
    from av.video.reformatter import Interpolation

    exact = Interpolation.ACCURATE_RND | Interpolation.BITEXACT
    full_chroma = Interpolation.FULL_CHR_H_INT | Interpolation.FULL_CHR_H_INP
    return int(Interpolation.BICUBIC | exact | full_chroma)


def _rate(fps: float) -> Fraction:
    """The rate as the exact fraction that was meant: 29.97 is 2997/100, 23.976 is 2997/125."""
    return Fraction(fps).limit_denominator(1001)


class _SecondReader:
    """A second position in a file in memory that is still being written."""

    def __init__(self, file: io.BytesIO) -> None:
        self._file = file
        self._position = 0

    def read(self, size_bytes: int) -> bytes:
        with self._file.getbuffer() as view:
            data = bytes(view[self._position : self._position + size_bytes])
        self._position += len(data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: len(self._file.getvalue())}
        self._position = base[whence] + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        """The file itself belongs to the writer."""
