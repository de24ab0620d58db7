"""The sound track of a video: float samples to AAC or Opus and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from restrike.media.clip import Audio

if TYPE_CHECKING:
    from av.audio.codeccontext import AudioCodecContext
    from av.audio.frame import AudioFrame
    from av.audio.stream import AudioStream
    from av.container import OutputContainer
    from av.packet import Packet

_AAC_RATES_HZ = frozenset((8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000, 64000, 88200, 96000))
_BEST_RATE_HZ = 48_000
_BITS_PER_S = 192_000
_SAMPLE_FORMAT = "fltp"


def add_aac(output: OutputContainer, audio: Audio) -> AudioStream:
    rate_hz = audio.rate_hz if audio.rate_hz in _AAC_RATES_HZ else _BEST_RATE_HZ
    return _prepared(output.add_stream("aac", rate=rate_hz), audio)


def add_opus(output: OutputContainer, audio: Audio) -> AudioStream:
    return _prepared(output.add_stream("libopus", rate=_BEST_RATE_HZ), audio)


def encode_sound(stream: AudioStream, audio: Audio) -> Iterator[Packet]:
    """The packets of the whole sound, resampled to the rate of `stream` where they differ."""
    import numpy as np
    from av import AudioFrame, AudioResampler

    context = _context(stream)
    clipped_CN = np.ascontiguousarray(np.clip(audio.samples_CN, -1.0, 1.0))
    whole = AudioFrame.from_ndarray(clipped_CN, format=_SAMPLE_FORMAT, layout=_layout(audio))
    whole.sample_rate = audio.rate_hz
    whole.pts = 0
    whole.time_base = Fraction(1, audio.rate_hz)
    resampler = AudioResampler(format=context.format, layout=context.layout, rate=context.sample_rate)
    for frame in (*resampler.resample(whole), *resampler.resample(None)):
        if frame is not None:  # the flush of a resampler that had nothing to do
            yield from stream.encode(frame)
    yield from stream.encode(None)


def join_sound(frames: Iterable[AudioFrame], stream: AudioStream) -> Audio | None:
    """The decoded frames as one array; more than two channels are mixed down to two."""
    import numpy as np
    from av import AudioResampler

    context = _context(stream)
    layout = "mono" if context.layout.nb_channels == 1 else "stereo"
    resampler = AudioResampler(format=_SAMPLE_FORMAT, layout=layout, rate=context.sample_rate)
    parts = [part.to_ndarray() for frame in frames for part in resampler.resample(frame)]
    if not parts:
        return None
    samples_CN = np.concatenate(parts, axis=1).astype(np.float32, copy=False)
    if stream.duration is not None and stream.time_base is not None:
        # AAC fills its last block with silence; the container knows where the sound ends.
        samples_CN = samples_CN[:, : round(stream.duration * stream.time_base * context.sample_rate)]
    return Audio(samples_CN=samples_CN, rate_hz=context.sample_rate)


def _prepared(stream: AudioStream, audio: Audio) -> AudioStream:
    from av.codec.context import Flags

    context = _context(stream)
    context.layout = _layout(audio)
    context.bit_rate = _BITS_PER_S
    context.flags |= Flags.bitexact.value
    return stream


def _context(stream: AudioStream) -> AudioCodecContext:
    return stream.codec_context


def _layout(audio: Audio) -> str:
    return "mono" if audio.samples_CN.shape[0] == 1 else "stereo"
