"""Tasks that make control images, for models that are steered by them. OpenCV does the work.

Depth, pose and segmentation need models of their own, and are not here: run those as pipeline steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from restrike.errors import Refused
from restrike.workflow.tasks.extras import needed
from restrike.workflow.tasks.frames import with_frames
from restrike.workflow.tasks.registry import task
from restrike.workflow.values import Clip

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Threshold = Annotated[float, Field(ge=0, le=2000)]
Blur = Annotated[float, Field(ge=0, le=64)]
# The largest Scharr gradient of 8-bit grey: weights 3, 10, 3 on a step of 255.
_SCHARR_FULL = 16 * 255.0


@contextmanager
def opencv(by: str) -> Iterator[Any]:
    """OpenCV on one thread: some of its results depend on how many there are."""
    cv2 = needed("cv2", by=by)
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield cv2
    finally:
        cv2.setNumThreads(threads)


@task("control.canny", epoch="1")
def canny(clip: Clip, low: Threshold = 100.0, high: Threshold = 200.0, blur: Blur = 0.0) -> Clip:
    """Draw the edges of a picture, or of every frame of a clip, as thin white lines on black (Canny).

    Args:
        clip: What is drawn; of its opacity nothing is seen.
        low: Gradient from which on an edge goes on, once begun.
        high: Gradient from which on an edge begins.
        blur: Gaussian blur beforehand, as a standard deviation in pixels; more leaves fewer edges.

    Returns:
        The edges, three equal channels.

    Example:
        task: control.canny
        arguments: {clip: $step.base, low: 100, high: 200}
    """
    if low > high:
        raise Refused(f"low ({low:g}) is above high ({high:g})")
    with opencv("control.canny") as cv2:
        return _drawn(cv2, clip, blur, lambda grey_HW: cv2.Canny(grey_HW, low, high))


@task("control.soft_edges", epoch="1")
def soft_edges(clip: Clip, strength: Annotated[float, Field(gt=0, le=20)] = 2.0, blur: Blur = 1.0) -> Clip:
    """Draw the edges of a picture, or of every frame of a clip, as soft as they are (Scharr gradient).

    Args:
        clip: What is drawn; of its opacity nothing is seen.
        strength: How bright the edges are; at 1 only a step from black to white is white.
        blur: Gaussian blur beforehand, as a standard deviation in pixels.

    Returns:
        The edges, bright on black, three equal channels.

    Example:
        task: control.soft_edges
        arguments: {clip: $step.base, strength: 3}
    """
    import numpy as np

    with opencv("control.soft_edges") as cv2:

        def edges(grey_HW: NDArray[np.uint8]) -> NDArray[np.uint8]:
            across_HW = cv2.Scharr(grey_HW, cv2.CV_32F, 1, 0)
            down_HW = cv2.Scharr(grey_HW, cv2.CV_32F, 0, 1)
            share_HW = cv2.magnitude(across_HW, down_HW) * (strength / _SCHARR_FULL)
            return (np.clip(share_HW, 0, 1) * 255 + 0.5).astype(np.uint8)

        return _drawn(cv2, clip, blur, edges)


def _drawn(cv2: Any, clip: Clip, blur: float, draw: Callable[[NDArray[np.uint8]], NDArray[np.uint8]]) -> Clip:
    import numpy as np

    drawn: list[NDArray[np.uint8]] = []
    for frame_HWC in clip.frames_THWC:
        grey_HW = cv2.cvtColor(np.ascontiguousarray(frame_HWC[..., :3]), cv2.COLOR_RGB2GRAY)
        if blur:
            grey_HW = cv2.GaussianBlur(grey_HW, (0, 0), blur)
        drawn.append(draw(grey_HW))
    return with_frames(clip, np.repeat(np.stack(drawn)[..., None], 3, axis=3))
