"""Runs FFmpeg's filters, through PyAV, on frames and sound in memory. No task is here."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from restrike.workflow.values import Sound

if TYPE_CHECKING:
    import numpy as np
    from av.filter import Graph
    from numpy.typing import NDArray

Filter = tuple[str, str]
"""A filter's name and its options, as FFmpeg writes them."""
_FORMAT = "fltp"


def filtered_sound(sound: Sound, filters: Sequence[Filter]) -> Sound:
    """The sound after the filters; `rate_hz` is that of what comes out."""
    import numpy as np

    frames = _sound_frames(sound, (*filters, ("aformat", f"sample_fmts={_FORMAT}")))
    channels = sound.samples_CN.shape[0]
    parts = [frame.to_ndarray() for frame in frames]
    samples_CN = np.concatenate(parts, axis=1) if parts else np.zeros((channels, 0), np.float32)
    rate_hz = frames[0].sample_rate if frames else sound.rate_hz
    return Sound(samples_CN=np.ascontiguousarray(samples_CN, np.float32), rate_hz=rate_hz)


def last_metadata(sound: Sound, filters: Sequence[Filter]) -> dict[str, str]:
    """What the filters had measured when the sound was over."""
    frames = _sound_frames(sound, filters)
    return dict(frames[-1].metadata) if frames else {}


def filtered_frames(
    frames_THWC: NDArray[np.uint8], fps: Fraction, filters: Sequence[Filter]
) -> NDArray[np.uint8]:
    """RGB frames after the filters, which work on full-range colours at full resolution (4:4:4)."""
    import av
    import numpy as np
    from av.filter import Graph

    height, width = frames_THWC.shape[1:3]
    graph = Graph()
    graph.threads = 1
    pixel_format = av.VideoFormat("rgb24", width, height)
    source = graph.add_buffer(width=width, height=height, format=pixel_format, time_base=1 / fps)
    middle = (("format", "yuvj444p"), *filters, ("format", "rgb24"))
    _link(graph, source, middle, "buffersink")
    for i, frame_HWC in enumerate(frames_THWC):
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(frame_HWC), format="rgb24")
        frame.pts, frame.time_base = i, 1 / fps
        graph.push(frame)
    return np.stack([frame.to_ndarray(format="rgb24") for frame in _pulled(graph)])


def _sound_frames(sound: Sound, filters: Sequence[Filter]) -> list[Any]:
    import numpy as np
    from av import AudioFrame
    from av.filter import Graph

    layout = "mono" if sound.samples_CN.shape[0] == 1 else "stereo"
    graph = Graph()
    graph.threads = 1
    base = Fraction(1, sound.rate_hz)
    source = graph.add_abuffer(sample_rate=sound.rate_hz, layout=layout, format=_FORMAT, time_base=base)
    _link(graph, source, filters, "abuffersink")
    if sound.samples_CN.shape[1]:
        whole = AudioFrame.from_ndarray(np.ascontiguousarray(sound.samples_CN), _FORMAT, layout)
        whole.sample_rate, whole.pts, whole.time_base = sound.rate_hz, 0, base
        graph.push(whole)
    return _pulled(graph)


def _link(graph: Graph, source: Any, filters: Sequence[Filter], sink: str) -> None:
    chain = [source, *(graph.add(name, options) for name, options in filters), graph.add(sink)]
    for before, after in pairwise(chain):
        before.link_to(after)
    graph.configure()


def _pulled(graph: Graph) -> list[Any]:
    """End the input and take all that comes out."""
    from av.error import BlockingIOError, EOFError

    graph.push(None)
    found: list[Any] = []
    while True:
        try:
            found.append(graph.pull())
        except (BlockingIOError, EOFError):
            return found
