"""Tasks that change how fast a clip plays or how many frames a second it has."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from restrike.workflow.tasks import samples
from restrike.workflow.tasks.filtering import filtered_frames, filtered_sound
from restrike.workflow.tasks.frames import check_opaque, check_size, length_of, rate_of, size_of, with_frames
from restrike.workflow.tasks.kinds import Fps
from restrike.workflow.tasks.registry import task
from restrike.workflow.values import Clip, Sound

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Between = Literal["nearest", "blend"]


@task("video.speed", epoch="1")
def speed(
    clip: Clip,
    factor: Annotated[float, Field(ge=0.05, le=20)],
    between: Between = "nearest",
    keep_pitch: bool = True,
) -> Clip:
    """Play a clip faster or slower, at the same frame rate.

    Args:
        clip: What is retimed.
        factor: 2 is twice as fast, 0.5 half as fast.
        between: At a time between two frames, the `nearest` shows, or a `blend` of both. For smooth slow
            motion use video.interpolate first.
        keep_pitch: Whether voices keep their pitch, or rise and fall with the speed.

    Returns:
        The clip, shorter or longer, with its sound.

    Example:
        task: video.speed
        arguments: {clip: $step.base, factor: 0.5, between: blend}
    """
    fps = rate_of(clip, "video.speed")
    count = max(1, round(length_of(clip) / factor))
    check_size(count, *size_of(clip))
    retimed = with_frames(clip, _at(clip.frames_THWC, [i * factor for i in range(count)], between))
    if clip.sound is None:
        return retimed
    paced = _paced(clip.sound, factor, keep_pitch)
    return replace(retimed, sound=samples.between(paced, 0, count / fps))


def _paced(sound: Sound, factor: float, keep_pitch: bool) -> Sound:
    samples.check_length(sound.seconds / factor, sound.rate_hz, sound.samples_CN.shape[0])
    if factor == 1:
        return sound
    if keep_pitch:
        return filtered_sound(sound, [("atempo", f"{part:.12g}") for part in _tempos(factor)])
    # The same samples, said to come faster, then brought back to the rate.
    rate = round(sound.rate_hz * factor)
    return filtered_sound(sound, [("asetrate", str(rate)), ("aresample", str(sound.rate_hz))])


def _tempos(factor: float) -> list[float]:
    """FFmpeg's atempo goes no lower than a half, so slower is a chain."""
    parts: list[float] = []
    while factor < 0.5:
        parts.append(0.5)
        factor /= 0.5
    return [*parts, factor]


def _at(frames_THWC: NDArray[np.uint8], positions: list[float], between: str) -> NDArray[np.uint8]:
    """The frames at fractional positions; after the last frame, the last."""
    import numpy as np

    last = len(frames_THWC) - 1
    if between == "nearest":
        return frames_THWC[[min(last, int(position + 0.5)) for position in positions]]
    out_THWC = np.empty((len(positions), *frames_THWC.shape[1:]), np.uint8)
    for i, position in enumerate(positions):
        before = min(last, int(position))
        share = np.float32(position - before if before < last else 0)
        after_HWC = frames_THWC[min(last, before + 1)]
        out_THWC[i] = frames_THWC[before] * (1 - share) + after_HWC * share + np.float32(0.5)
    return out_THWC


@task("video.rate", epoch="1")
def rate(clip: Clip, fps: Fps, between: Between = "nearest") -> Clip:
    """Give a clip another frame rate; it plays as fast and as long as before.

    Args:
        clip: What gets the rate.
        fps: Frames a second.
        between: At a time between two frames, the `nearest` shows, or a `blend` of both.

    Returns:
        The clip at the new rate, with its sound.

    Example:
        task: video.rate
        arguments: {clip: $step.base, fps: 24}
    """
    own = rate_of(clip, "video.rate")
    if own == fps:
        return clip
    count = max(1, round(length_of(clip) * fps / own))
    check_size(count, *size_of(clip))
    frames_THWC = _at(clip.frames_THWC, [i * own / fps for i in range(count)], between)
    return replace(with_frames(clip, frames_THWC), fps=float(fps))


@task("video.interpolate", epoch="1")
def interpolate(
    clip: Clip,
    factor: Annotated[int, Field(ge=2, le=16)] = 2,
    method: Literal["motion", "blend"] = "motion",
) -> Clip:
    """Put new frames between those of a clip, without a model.

    Args:
        clip: At least two frames. Its own frames stay exactly as they are.
        factor: How many times as many frames a second.
        method: `motion` follows what moves (FFmpeg's motion compensation; the picture has to be 32 pixels or
            more each way), `blend` mixes both neighbours.

    Returns:
        The smoother clip, with its sound; n frames become (n - 1) * factor + 1.

    Example:
        task: video.interpolate
        arguments: {clip: $step.base, factor: 2}
    """
    fps = rate_of(clip, "video.interpolate")
    count = (length_of(clip) - 1) * factor + 1
    check_size(count, *size_of(clip))
    if method == "motion" and length_of(clip) > 1:
        check_opaque(clip, "motion compensation")
        frames_THWC = _followed(clip.frames_THWC, factor, count)
    else:
        frames_THWC = _at(clip.frames_THWC, [i / factor for i in range(count)], "blend")
    return replace(with_frames(clip, frames_THWC), fps=fps * factor)


def _followed(frames_THWC: NDArray[np.uint8], factor: int, count: int) -> NDArray[np.uint8]:
    """Motion-compensated frames between; the given ones are put back as they were."""
    import numpy as np

    # FFmpeg looks two frames ahead and gives nothing for the last ones, and one before; so they are repeated.
    held = np.concatenate([frames_THWC[:1], frames_THWC, np.repeat(frames_THWC[-1:], 3, axis=0)])
    options = f"fps={factor}:mi_mode=mci:mb_size=8:scd=none"
    made = filtered_frames(np.ascontiguousarray(held), Fraction(1), [("minterpolate", options)])
    out_THWC = made[factor : factor + count].copy()
    out_THWC[::factor] = frames_THWC
    return out_THWC
