"""Tasks on the colours of pictures and clips.

Formulas: IEC 61966-2-1 (sRGB), ITU-R BT.709 (luma), CIE 1976 L*a*b* under D65.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from restrike.workflow.tasks.frames import each_rgb
from restrike.workflow.tasks.kinds import Share
from restrike.workflow.tasks.registry import task
from restrike.workflow.values import Clip

if TYPE_CHECKING:
    from numpy.typing import NDArray

Signed = Annotated[float, Field(ge=-1, le=1)]
_LUMA = (0.2126, 0.7152, 0.0722)
_WHITE_D65 = (0.95047, 1.0, 1.08883)
_RGB_TO_XYZ = (
    (0.4124564, 0.3575761, 0.1804375),
    (0.2126729, 0.7151522, 0.0721750),
    (0.0193339, 0.1191920, 0.9503041),
)
_BREAK = 6 / 29


@task("colour.grade", epoch="1")
def grade(
    clip: Clip,
    exposure: Annotated[float, Field(ge=-10, le=10)] = 0.0,
    temperature: Signed = 0.0,
    tint: Signed = 0.0,
    contrast: Annotated[float, Field(ge=0, le=4)] = 1.0,
    saturation: Annotated[float, Field(ge=0, le=4)] = 1.0,
    gamma: Annotated[float, Field(ge=0.1, le=10)] = 1.0,
) -> Clip:
    """Grade a picture, or every frame of a clip.

    The steps are taken in the order of the arguments; one at its default changes no byte.

    Args:
        clip: What is graded.
        exposure: In stops: each doubles the light.
        temperature: From -1, cold, to 1, warm: the light of red against that of blue.
        tint: From -1, green, to 1, magenta.
        contrast: Around middle grey; 0 leaves only grey, 1 changes nothing.
        saturation: 0 leaves only grey tones, 1 changes nothing.
        gamma: Above 1 lifts the middle tones, below 1 lowers them.

    Returns:
        The graded clip.

    Example:
        task: colour.grade
        arguments: {clip: $step.base, exposure: 0.3, contrast: 1.1, saturation: 1.2, temperature: 0.15}
    """
    if (exposure, temperature, tint, contrast, saturation, gamma) == (0, 0, 0, 1, 1, 1):
        return clip

    def change(rgb: NDArray[Any]) -> NDArray[Any]:
        if exposure or temperature or tint:
            rgb = _lit(rgb, exposure, temperature, tint)
        if contrast != 1:
            rgb = (rgb - 0.5) * contrast + 0.5
        if saturation != 1:
            luma = _luma(rgb)
            rgb = luma + (rgb - luma) * saturation
        return rgb if gamma == 1 else rgb.clip(0, 1) ** (1 / gamma)

    return each_rgb(clip, change)


def _lit(rgb: NDArray[Any], exposure: float, temperature: float, tint: float) -> NDArray[Any]:
    """More or other light: factors on linear light that leave its luminance to the exposure alone."""
    import numpy as np

    # Half a stop between red and blue, or between green and the others, at the ends of the scales.
    stops = np.array([temperature + tint / 2, -tint, -temperature + tint / 2], np.float32) / 2
    factors = 2.0**stops
    factors = (factors / (factors @ np.array(_LUMA)) * 2.0**exposure).astype(np.float32)
    return _encoded(np.clip(_linear(rgb) * factors, 0, 1))


def _luma(rgb: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    return (rgb @ np.array(_LUMA, np.float32))[..., None]


@task("colour.grey", epoch="1")
def grey(clip: Clip, strength: Share = 1.0) -> Clip:
    """Take the colour out of a picture, or of every frame of a clip.

    Args:
        clip: What loses its colour.
        strength: 1 leaves only grey tones (BT.709 luma), 0 changes nothing.

    Returns:
        The clip, still with three channels.

    Example:
        task: colour.grey
        arguments: {clip: $step.base}
    """
    return grade(clip, saturation=1.0 - strength)


@task("colour.invert", epoch="1")
def invert(clip: Clip) -> Clip:
    """Turn colours into their opposites; opacity stays.

    Args:
        clip: What is inverted: a picture, or a mask whose other side is wanted.

    Returns:
        The negative.

    Example:
        task: colour.invert
        arguments: {clip: $step.mask}
    """
    return each_rgb(clip, lambda rgb: 1 - rgb)


@task("colour.transfer", epoch="1")
def transfer(clip: Clip, reference: Clip, strength: Share = 1.0) -> Clip:
    """Give a picture or clip the colours of another.

    Mean and spread of lightness and of both colour axes become those of the reference, in CIE L*a*b*
    (after Reinhard, Ashikhmin, Gooch and Shirley: Color Transfer between Images, 2001). They are taken over
    all frames together, so that a clip does not flicker.

    Args:
        clip: What gets other colours.
        reference: Whose colours it gets; its size and length do not matter.
        strength: 1 goes all the way, 0 changes nothing.

    Returns:
        The clip in its new colours.

    Example:
        task: colour.transfer
        arguments: {clip: $step.base, reference: $asset.sunset.png, strength: 0.8}
    """
    if strength == 0:
        return clip
    mean, spread = _statistics(clip)
    wanted_mean, wanted_spread = _statistics(reference)

    def change(rgb: NDArray[Any]) -> NDArray[Any]:
        import numpy as np

        lab = _lab(rgb)
        moved = (lab - mean) * (wanted_spread / np.maximum(spread, 1e-6)) + wanted_mean
        return _rgb(lab + (moved - lab) * np.float32(strength))

    return each_rgb(clip, change)


def _statistics(clip: Clip) -> tuple[NDArray[Any], NDArray[Any]]:
    """Mean and standard deviation of L*, a* and b* over all frames."""
    import numpy as np

    total, squares, count = np.zeros(3), np.zeros(3), 0
    for frame_HWC in clip.frames_THWC:
        lab = _lab(frame_HWC[..., :3].astype(np.float32) / 255).reshape(-1, 3).astype(np.float64)
        total, squares, count = total + lab.sum(axis=0), squares + (lab**2).sum(axis=0), count + len(lab)
    mean = total / count
    spread = np.sqrt(np.maximum(squares / count - mean**2, 0))
    return mean.astype(np.float32), spread.astype(np.float32)


def _linear(rgb: NDArray[Any]) -> NDArray[Any]:
    """sRGB values to linear light, both from 0 to 1."""
    import numpy as np

    return np.where(rgb <= 0.04045, rgb / 12.92, ((np.maximum(rgb, 0) + 0.055) / 1.055) ** 2.4)


def _encoded(light: NDArray[Any]) -> NDArray[Any]:
    """Linear light to sRGB values, both from 0 to 1."""
    import numpy as np

    return np.where(light <= 0.0031308, light * 12.92, 1.055 * np.maximum(light, 0) ** (1 / 2.4) - 0.055)


def _lab(rgb: NDArray[Any]) -> NDArray[Any]:
    """sRGB from 0 to 1 to L*a*b* under D65."""
    import numpy as np

    matrix = np.array(_RGB_TO_XYZ, np.float32) / np.array(_WHITE_D65, np.float32)[:, None]
    xyz = _linear(rgb) @ matrix.T
    curved = np.where(xyz > _BREAK**3, np.cbrt(xyz), xyz / (3 * _BREAK**2) + 4 / 29)
    x, y, z = curved[..., 0], curved[..., 1], curved[..., 2]
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)


def _rgb(lab: NDArray[Any]) -> NDArray[Any]:
    """L*a*b* under D65 to sRGB; colours that sRGB lacks lie outside 0 to 1."""
    import numpy as np

    y = (lab[..., 0] + 16) / 116
    curved = np.stack([y + lab[..., 1] / 500, y, y - lab[..., 2] / 200], axis=-1)
    xyz = np.where(curved > _BREAK, curved**3, 3 * _BREAK**2 * (curved - 4 / 29))
    matrix = np.linalg.inv(np.array(_RGB_TO_XYZ)) * np.array(_WHITE_D65)
    return _encoded(xyz @ matrix.astype(np.float32).T)
