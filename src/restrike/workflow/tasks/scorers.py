"""Measures of pictures and clips that `judge.score` knows by name. Each says its unit.

Axes: T frames, H height, W width, C channels (red, green, blue). Grey is BT.601 luma, as in 8-bit pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from restrike.errors import Refused
from restrike.workflow.tasks.frames import length_of, size_of
from restrike.workflow.tasks.readers import caption_share, digit_margin
from restrike.workflow.values import Clip

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Name = Literal[
    "brightness",
    "contrast",
    "sharpness",
    "colourfulness",
    "motion",
    "psnr",
    "ssim",
    "caption",
    "digit",
]
Needs = Literal["nothing", "reference", "expected"]
_GREY = (0.299, 0.587, 0.114)
_BEST_PSNR_DB = 100.0
_SSIM_RADIUS_PX, _SSIM_SIGMA_PX = 5, 1.5
_SSIM_C1, _SSIM_C2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2


@dataclass(frozen=True, kw_only=True)
class Scorer:
    """A measure; more is more of its name. `needs` is the argument that it takes beside the clip."""

    summary: str
    measure: Callable[..., float]
    needs: Needs = "nothing"


def brightness(clip: Clip) -> float:
    """Mean grey, from 0 to 1."""
    return _mean(float(grey_HW.mean()) / 255 for grey_HW in _greys(clip))


def contrast(clip: Clip) -> float:
    """Standard deviation of grey, from 0 to 0.5."""
    return _mean(float(grey_HW.std()) / 255 for grey_HW in _greys(clip))


def sharpness(clip: Clip) -> float:
    """Variance of the Laplacian of 8-bit grey (Pech-Pacheco and others, 2000)."""
    if min(size_of(clip)) < 3:
        raise Refused("sharpness takes 3 pixels each way to measure")
    return _mean(float(_laplacian(grey_HW).var()) for grey_HW in _greys(clip))


def _laplacian(grey_HW: NDArray[np.float64]) -> NDArray[np.float64]:
    around = grey_HW[:-2, 1:-1] + grey_HW[2:, 1:-1] + grey_HW[1:-1, :-2] + grey_HW[1:-1, 2:]
    return around - 4 * grey_HW[1:-1, 1:-1]


def colourfulness(clip: Clip) -> float:
    """The measure of Hasler and Suesstrunk (2003) on 8-bit colours: 0 for grey, above 100 for gaudy."""
    import numpy as np

    def of(frame_HWC: NDArray[np.uint8]) -> float:
        red, green, blue = (frame_HWC[..., i].astype(np.float64) for i in range(3))
        axes = red - green, (red + green) / 2 - blue
        spread = np.hypot(axes[0].std(), axes[1].std())
        return float(spread + 0.3 * np.hypot(axes[0].mean(), axes[1].mean()))

    return _mean(of(frame_HWC) for frame_HWC in clip.frames_THWC)


def motion(clip: Clip) -> float:
    """Mean difference of grey from frame to frame, from 0 to 1; 0 for a picture."""
    import numpy as np

    changes = [float(np.abs(b - a).mean()) / 255 for a, b in pairwise(_greys(clip))]
    return _mean(changes) if changes else 0.0


def psnr(clip: Clip, reference: Clip) -> float:
    """Peak signal-to-noise ratio against the reference, in dB over all frames; 100 for equal clips."""
    import numpy as np

    errors = [
        float(np.square(a[..., :3].astype(np.float64) - b[..., :3]).mean())
        for a, b in _pairs(clip, reference)
    ]
    error = _mean(errors)
    return _BEST_PSNR_DB if error == 0 else min(_BEST_PSNR_DB, float(10 * np.log10(255**2 / error)))


def ssim(clip: Clip, reference: Clip) -> float:
    """Structural similarity to the reference (Wang and others, 2004) on grey; 1 for equal clips."""
    least = 2 * _SSIM_RADIUS_PX + 1
    if min(size_of(clip)) < least:
        raise Refused(f"ssim takes {least} pixels each way to measure")
    pairs = zip(_greys(clip), _greys(_as_long(reference, clip)), strict=True)
    return _mean(_similarity(a_HW, b_HW) for a_HW, b_HW in pairs)


def _similarity(a_HW: NDArray[np.float64], b_HW: NDArray[np.float64]) -> float:
    mean_a, mean_b = _weighed(a_HW), _weighed(b_HW)
    variance_a = _weighed(a_HW * a_HW) - mean_a * mean_a
    variance_b = _weighed(b_HW * b_HW) - mean_b * mean_b
    covariance = _weighed(a_HW * b_HW) - mean_a * mean_b
    light = (2 * mean_a * mean_b + _SSIM_C1) / (mean_a**2 + mean_b**2 + _SSIM_C1)
    structure = (2 * covariance + _SSIM_C2) / (variance_a + variance_b + _SSIM_C2)
    return float((light * structure).mean())


def _weighed(values_HW: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean under a Gaussian window, where the window lies whole inside."""
    import numpy as np

    at = np.arange(-_SSIM_RADIUS_PX, _SSIM_RADIUS_PX + 1)
    window = np.exp(-(at**2) / (2 * _SSIM_SIGMA_PX**2))
    window /= window.sum()
    height, width = values_HW.shape
    rows = np.zeros((height - 2 * _SSIM_RADIUS_PX, width))
    for i, weight in enumerate(window):
        rows += weight * values_HW[i : i + rows.shape[0]]
    out = np.zeros((rows.shape[0], width - 2 * _SSIM_RADIUS_PX))
    for i, weight in enumerate(window):
        out += weight * rows[:, i : i + out.shape[1]]
    return out


def _greys(clip: Clip) -> Iterator[NDArray[np.float64]]:
    import numpy as np

    for frame_HWC in clip.frames_THWC:
        yield frame_HWC[..., :3].astype(np.float64) @ np.array(_GREY)


def _pairs(clip: Clip, reference: Clip) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.uint8]]]:
    return zip(clip.frames_THWC, _as_long(reference, clip).frames_THWC, strict=True)


def _as_long(reference: Clip, clip: Clip) -> Clip:
    """The reference frame for frame; a picture stands for every frame."""
    import numpy as np

    if size_of(reference) != size_of(clip):
        shown = "{}x{}".format(*size_of(reference)), "{}x{}".format(*size_of(clip))
        raise Refused(f"the reference is {shown[0]}, the clip {shown[1]}; resize one")
    if length_of(reference) == length_of(clip):
        return reference
    if not reference.is_still:
        raise Refused(f"the reference has {length_of(reference)} frames, the clip {length_of(clip)}")
    return Clip(
        frames_THWC=np.broadcast_to(
            reference.frames_THWC, (length_of(clip), *reference.frames_THWC.shape[1:])
        )
    )


def _mean(values: Iterator[float] | list[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


_NEEDS: Mapping[Callable[..., float], Needs] = {
    psnr: "reference",
    ssim: "reference",
    caption_share: "expected",
    digit_margin: "expected",
}
_MEASURES: Mapping[Name, Callable[..., float]] = {
    "brightness": brightness,
    "contrast": contrast,
    "sharpness": sharpness,
    "colourfulness": colourfulness,
    "motion": motion,
    "psnr": psnr,
    "ssim": ssim,
    "caption": caption_share,
    "digit": digit_margin,
}
SCORERS: Mapping[Name, Scorer] = {
    name: Scorer(
        summary=(measure.__doc__ or "").split("\n")[0],
        measure=measure,
        needs=_NEEDS.get(measure, "nothing"),
    )
    for name, measure in _MEASURES.items()
}
