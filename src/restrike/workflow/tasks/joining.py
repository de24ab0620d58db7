"""Tasks that join clips one after the other, hard or softly. Sound goes along."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, TypedDict

from pydantic import Field

from restrike.errors import Refused
from restrike.workflow.tasks import samples
from restrike.workflow.tasks.frames import (
    alike,
    check_size,
    fill_of,
    length_of,
    one_rate,
    rate_of,
    size_of,
    with_frames,
)
from restrike.workflow.tasks.kinds import Colour, Duration, Seconds
from restrike.workflow.tasks.registry import task
from restrike.workflow.values import Clip, Sound

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Clips = Annotated[list[Clip], Field(min_length=1, max_length=10_000)]


@task("video.concat", epoch="1")
def concat(clips: Clips) -> Clip:
    """Play clips one after the other.

    Args:
        clips: In order, all of one size and rate.

    Returns:
        One clip. Where a clip has no sound and another has, there is silence.

    Example:
        task: video.concat
        arguments: {clips: "$step.many[*]"}
    """
    import numpy as np

    fps = one_rate(clips, "video.concat")
    check_size(sum(map(length_of, clips)), *size_of(clips[0]))
    sounds = _sounds(clips, fps)
    sound = samples.chained(sounds) if sounds else None
    return Clip(frames_THWC=np.concatenate(alike(clips)), fps=fps, sound=sound)


def _sounds(clips: Sequence[Clip], fps: float) -> list[Sound]:
    """The sound of each clip, just as long as its pictures; none at all when no clip has any."""
    first = next((clip.sound for clip in clips if clip.sound is not None), None)
    if first is None:
        return []
    quiet = samples.silence(0, first.rate_hz, first.samples_CN.shape[0])
    return [samples.between(clip.sound or quiet, 0, length_of(clip) / fps) for clip in clips]


@task("video.crossfade", epoch="1")
def crossfade(clips: Clips, seconds: Duration = 0.5) -> Clip:
    """Play clips one after the other, each dissolving into the next.

    Args:
        clips: In order, all of one size and rate, each longer than its dissolves.
        seconds: How long a dissolve lasts, at least one frame; the clips overlap for so long.

    Returns:
        One clip, shorter than the sum by the dissolves. Sounds cross at equal power.

    Example:
        task: video.crossfade
        arguments: {clips: [$step.first, $step.second], seconds: 0.5}
    """
    fps = one_rate(clips, "video.crossfade")
    overlap = max(1, round(seconds * fps))
    for index, clip in enumerate(clips):
        needed = overlap * (1 if index in (0, len(clips) - 1) else 2)
        if len(clips) > 1 and length_of(clip) < needed:
            raise Refused(f"clip {index} has {length_of(clip)} frames, its dissolves take {needed}")
    total = sum(map(length_of, clips)) - overlap * (len(clips) - 1)
    check_size(total, *size_of(clips[0]))
    sounds = samples.alike(_sounds(clips, fps)) if _sounds(clips, fps) else []
    sound = _crossed(sounds, overlap / fps) if sounds else None
    return Clip(frames_THWC=_dissolved(alike(clips), overlap, total), fps=fps, sound=sound)


def _dissolved(parts: Sequence[NDArray[np.uint8]], overlap: int, total: int) -> NDArray[np.uint8]:
    import numpy as np

    out_THWC = np.empty((total, *parts[0].shape[1:]), np.uint8)
    end = len(parts[0])
    out_THWC[:end] = parts[0]
    for part_THWC in parts[1:]:
        start = end - overlap
        for i in range(overlap):
            out_THWC[start + i] = _mixed(out_THWC[start + i], part_THWC[i], (i + 1) / (overlap + 1))
        end = start + len(part_THWC)
        out_THWC[start + overlap : end] = part_THWC[overlap:]
    return out_THWC


def _mixed(a: NDArray[np.uint8], b: NDArray[np.uint8], share: float) -> NDArray[np.uint8]:
    import numpy as np

    return (a * np.float32(1 - share) + b * np.float32(share) + 0.5).astype(np.uint8)


def _crossed(sounds: Sequence[Sound], overlap_s: float) -> Sound:
    import numpy as np

    rate_hz = sounds[0].rate_hz
    overlap = round(overlap_s * rate_hz)
    angle_N = (np.arange(overlap) + 0.5) / overlap * np.pi / 2
    out_CN = sounds[0].samples_CN
    for sound in sounds[1:]:
        crossing_CN = out_CN[:, -overlap:] * np.cos(angle_N) + sound.samples_CN[:, :overlap] * np.sin(angle_N)
        out_CN = np.concatenate([out_CN[:, :-overlap], crossing_CN, sound.samples_CN[:, overlap:]], axis=1)
    return samples.sound_of(out_CN, rate_hz)


class Shot(TypedDict):
    """Frames from `start` up to, but not with, `stop`, and the same in seconds."""

    start: int
    stop: int
    start_seconds: float
    stop_seconds: float


@task("video.shots", epoch="1")
def shots(clips: Clips, overlap: Seconds = 0.0) -> list[Shot]:
    """Tell where each clip is found in what video.concat or video.crossfade makes of them.

    Args:
        clips: The same clips, in the same order.
        overlap: The seconds of video.crossfade; 0 for video.concat.

    Returns:
        A list of tables, one a clip, that together cover all frames. A dissolve is shared half and half.

    Example:
        task: video.shots
        arguments: {clips: "$step.many[*]"}
        result: {container: json}
    """
    fps = one_rate(clips, "video.shots")
    shared = max(1, round(overlap * fps)) if overlap else 0
    found: list[Shot] = []
    end = 0
    for index, clip in enumerate(clips):
        begins = end - shared if index else 0
        end = begins + length_of(clip)
        start = found[-1]["stop"] if found else 0
        stop = end if index == len(clips) - 1 else end - shared // 2
        if start >= stop:
            raise Refused(f"clip {index} has {length_of(clip)} frames, fewer than its dissolves take")
        found.append(Shot(start=start, stop=stop, start_seconds=start / fps, stop_seconds=stop / fps))
    return found


@task("video.fade", epoch="1")
def fade(clip: Clip, fade_in: Seconds = 0.0, fade_out: Seconds = 0.0, colour: Colour = "black") -> Clip:
    """Let a clip appear out of a colour and vanish into it, its sound too.

    Args:
        clip: What is faded.
        fade_in: How long it appears, in seconds.
        fade_out: How long it vanishes, in seconds.
        colour: Where it comes from and goes to.

    Returns:
        The clip, as long as before.

    Example:
        task: video.fade
        arguments: {clip: $step.base, fade_in: 0.25, fade_out: 0.5}
    """
    import numpy as np

    fps, count = rate_of(clip, "video.fade"), length_of(clip)
    fill = np.array(fill_of(colour, clip.frames_THWC.shape[-1]), np.uint8)
    out_THWC = clip.frames_THWC.copy()
    for i in range(count):
        shown = min(_ramp(i, fade_in * fps), _ramp(count - 1 - i, fade_out * fps))
        if shown < 1:
            out_THWC[i] = _mixed(np.broadcast_to(fill, out_THWC[i].shape), out_THWC[i], shown)
    faded = with_frames(clip, out_THWC)
    if clip.sound is None:
        return faded
    return replace(faded, sound=samples.faded(clip.sound, fade_in, fade_out))


def _ramp(i: int, length: float) -> float:
    """How much of the frame `i` frames from the end shows: nothing of the outermost, all after the length."""
    return 1.0 if length <= 0 else min(1.0, i / length)
