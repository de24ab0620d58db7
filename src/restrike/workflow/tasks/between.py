"""Tasks that put frames between those of a clip by looking at it: by dense optical flow, or by a network.

Axes: T frames, H height, W width, C channels; flow_HW2 is in pixels, x and y.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from restrike.errors import Refused
from restrike.workflow.tasks.control import opencv
from restrike.workflow.tasks.frames import check_opaque, check_size, length_of, rate_of, size_of, with_frames
from restrike.workflow.tasks.networks import Network, bytes_of, planes
from restrike.workflow.tasks.registry import task
from restrike.workflow.values import Clip

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Factor = Annotated[int, Field(ge=2, le=16)]
_LEAST_SIDE_PX = 12
_MULTIPLE_PX = 32


@task("video.interpolate_flow", epoch="1")
def by_flow(clip: Clip, factor: Factor = 2) -> Clip:
    """Put new frames between those of a clip along its optical flow, without a model.

    The flow is found both ways by dense inverse search (Kroeger and others, 2016); both frames are moved
    along it and mixed. Better than the filters of video.interpolate where little is hidden and shown again.

    Args:
        clip: Its own frames stay exactly as they are.
        factor: How many times as many frames a second.

    Returns:
        The smoother clip, with its sound; n frames become (n - 1) * factor + 1.

    Example:
        task: video.interpolate_flow
        arguments: {clip: $step.base, factor: 2}
    """
    width, height = size_of(clip)
    if min(width, height) < _LEAST_SIDE_PX:
        raise Refused(f"optical flow needs {_LEAST_SIDE_PX} pixels each way, the clip is {width}x{height}")
    with opencv("video.interpolate_flow") as cv2:
        return _filled(clip, factor, lambda a, b, times: _moved(cv2, a, b, times))


def _filled(clip: Clip, factor: int, between: Any) -> Clip:
    """The clip with `between(before, after, times)` put into every gap."""
    import numpy as np

    fps, count = rate_of(clip, "interpolation"), length_of(clip)
    check_size((count - 1) * factor + 1, *size_of(clip))
    times = [step / factor for step in range(1, factor)]
    out_THWC = np.empty(((count - 1) * factor + 1, *clip.frames_THWC.shape[1:]), np.uint8)
    out_THWC[::factor] = clip.frames_THWC
    for i in range(count - 1):
        before_HWC, after_HWC = clip.frames_THWC[i], clip.frames_THWC[i + 1]
        start = i * factor + 1
        if np.array_equal(before_HWC, after_HWC):
            out_THWC[start : start + factor - 1] = before_HWC
        else:
            out_THWC[start : start + factor - 1] = between(before_HWC, after_HWC, times)
    return replace(with_frames(clip, out_THWC), fps=fps * factor)


def _moved(
    cv2: Any, before_HWC: NDArray[np.uint8], after_HWC: NDArray[np.uint8], times: list[float]
) -> list[NDArray[np.uint8]]:
    import numpy as np

    before_HW, after_HW = (
        cv2.cvtColor(np.ascontiguousarray(frame_HWC[..., :3]), cv2.COLOR_RGB2GRAY)
        for frame_HWC in (before_HWC, after_HWC)
    )
    search = cv2.DISOpticalFlow_create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    forth_HW2 = search.calc(before_HW, after_HW, None)
    back_HW2 = search.calc(after_HW, before_HW, None)
    made: list[NDArray[np.uint8]] = []
    for time in times:
        early_HWC = _warped(cv2, before_HWC, forth_HW2 * np.float32(-time))
        late_HWC = _warped(cv2, after_HWC, back_HW2 * np.float32(time - 1))
        mixed_HWC = early_HWC * np.float32(1 - time) + late_HWC * np.float32(time)
        made.append((mixed_HWC + np.float32(0.5)).clip(0, 255).astype(np.uint8))
    return made


def _warped(cv2: Any, frame_HWC: NDArray[np.uint8], shift_HW2: NDArray[Any]) -> NDArray[Any]:
    """Each pixel taken from `shift_HW2` beside its place."""
    import numpy as np

    height, width = frame_HWC.shape[:2]
    y_HW, x_HW = np.mgrid[0:height, 0:width].astype(np.float32)
    return cv2.remap(
        frame_HWC.astype(np.float32),
        x_HW + shift_HW2[..., 0],
        y_HW + shift_HW2[..., 1],
        cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_REPLICATE,
    )


@task("video.interpolate_model", epoch="1")
def by_model(clip: Clip, param: Path, weights: Path, factor: Factor = 2) -> Clip:
    """Put new frames between those of a clip by a network of your own in ncnn's files.

    Args:
        clip: Its own frames stay exactly as they are. One with opacity is refused.
        param: The network's .param file. Its inputs are two pictures from 0 to 1 and, if there is a third,
            a plane filled with the time between them; its output is the picture at that time.
        weights: Its .bin file.
        factor: How many times as many frames a second; a power of two for a network without a time.

    Returns:
        The smoother clip, with its sound; n frames become (n - 1) * factor + 1.

    Example:
        task: video.interpolate_model
        arguments: {clip: $step.base, param: $asset.models/rife.param, weights: $asset.models/rife.bin}
    """
    check_opaque(clip, "video.interpolate_model")
    network = Network(param, weights, by="video.interpolate_model")
    if len(network.inputs) == 3:
        return _filled(clip, factor, lambda a, b, times: [_asked(network, a, b, time) for time in times])
    if len(network.inputs) != 2:
        raise Refused(
            f"'{param.name}' has {len(network.inputs)} inputs; two pictures, or also a time, are meant"
        )
    if factor & (factor - 1):
        raise Refused(f"'{param.name}' takes no time, so the factor is 2, 4, 8 or 16, not {factor}")
    while factor > 1:
        clip = _filled(clip, 2, lambda a, b, times: [_asked(network, a, b, None)])
        factor //= 2
    return clip


def _asked(
    network: Network, before_HWC: NDArray[np.uint8], after_HWC: NDArray[np.uint8], time: float | None
) -> NDArray[np.uint8]:
    """The network's picture; its inputs are filled up to a multiple of 32 pixels, as such networks need."""
    import numpy as np

    height, width = before_HWC.shape[:2]
    margins = ((0, 0), (0, -height % _MULTIPLE_PX), (0, -width % _MULTIPLE_PX))
    inputs = [np.pad(planes(frame_HWC), margins, mode="edge") for frame_HWC in (before_HWC, after_HWC)]
    if time is not None:
        inputs.append(np.full((1, *inputs[0].shape[1:]), time, np.float32))
    made_CHW = network.run(inputs)
    if made_CHW.shape != inputs[0].shape:
        raise Refused(f"the network makes {made_CHW.shape[1:]} pixels of {inputs[0].shape[1:]}")
    return bytes_of(made_CHW[:, :height, :width])
