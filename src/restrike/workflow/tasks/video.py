"""Tasks that take clips apart, make them of pictures, and arrange their frames in time. Sound goes along."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from restrike.errors import Refused
from restrike.workflow.tasks import samples
from restrike.workflow.tasks.frames import alike, check_size, length_of, rate_of, size_of, with_frames
from restrike.workflow.tasks.kinds import Duration, Fps, Seconds
from restrike.workflow.tasks.registry import task
from restrike.workflow.values import Clip, Sound

Index = Annotated[int, Field(ge=-1_000_000, le=1_000_000)]
MOST_PICTURES = 10_000


@task("video.from_frames", epoch="1")
def from_frames(
    frames: Annotated[list[Clip], Field(min_length=1, max_length=MOST_PICTURES)],
    fps: Fps,
    sound: Sound | None = None,
) -> Clip:
    """Make a clip of pictures.

    Args:
        frames: In order, all of one size; a clip among them gives all its frames.
        fps: Frames a second.
        sound: What sounds with it; cut or filled with silence to its length.

    Returns:
        The clip.

    Example:
        task: video.from_frames
        arguments: {frames: "$step.many[*]", fps: 8}
    """
    import numpy as np

    check_size(sum(map(length_of, frames)), *size_of(frames[0]))
    frames_THWC = np.concatenate(alike(frames))
    fitted = samples.between(sound, 0, len(frames_THWC) / fps) if sound is not None else None
    return Clip(frames_THWC=frames_THWC, fps=float(fps), sound=fitted)


@task("video.frames", epoch="1")
def frames(clip: Clip, every: Annotated[int, Field(ge=1, le=100_000)] = 1) -> list[Clip]:
    """Take a clip apart into pictures.

    Args:
        clip: At most 10,000 frames are taken.
        every: 1 takes each frame, 2 every other one, beginning with the first.

    Returns:
        A list of pictures.

    Example:
        task: video.frames
        arguments: {clip: $step.base, every: 4}
    """
    chosen = range(0, length_of(clip), every)
    if len(chosen) > MOST_PICTURES:
        raise Refused(f"{len(chosen)} pictures, the limit is {MOST_PICTURES}; take fewer with 'every'")
    return [clip.frame(index) for index in chosen]


@task("video.frame", epoch="1")
def frame(clip: Clip, index: Index | None = None, time: Seconds | None = None) -> Clip:
    """Take one picture out of a clip.

    Args:
        clip: Where it is taken from.
        index: Which frame; 0 is the first, -1 the last.
        time: Or when, in seconds: the frame that shows then.

    Returns:
        The picture.

    Example:
        task: video.frame
        arguments: {clip: $step.base, index: -1}
    """
    if (index is None) == (time is None):
        raise Refused("give an index or a time")
    if index is None:
        index = int((time or 0.0) * rate_of(clip, "a time"))
    if not -length_of(clip) <= index < length_of(clip):
        raise Refused(f"there is no frame {index}; the clip has {length_of(clip)}")
    return clip.frame(index)


@task("video.hold", epoch="1")
def hold(picture: Clip, seconds: Duration, fps: Fps) -> Clip:
    """Make a clip that shows one picture.

    Args:
        picture: What it shows; of a clip, the last frame.
        seconds: How long.
        fps: Frames a second.

    Returns:
        The clip, at least one frame long.

    Example:
        task: video.hold
        arguments: {picture: $step.title, seconds: 2, fps: 8}
    """
    import numpy as np

    count = max(1, round(seconds * fps))
    check_size(count, *size_of(picture))
    return Clip(frames_THWC=np.repeat(picture.frames_THWC[-1:], count, axis=0), fps=float(fps))


@task("video.trim", epoch="1")
def trim(clip: Clip, start: Seconds = 0.0, end: Seconds | None = None) -> Clip:
    """Keep the part of a clip between two times.

    Args:
        clip: What is cut.
        start: In seconds; the cut is made at the nearest frame.
        end: In seconds; left out, the end of the clip.

    Returns:
        The part, with its sound.

    Example:
        task: video.trim
        arguments: {clip: $step.base, start: 0.5, end: 1.5}
    """
    fps = rate_of(clip, "video.trim")
    last = length_of(clip) if end is None else round(end * fps)
    return cut(clip, round(start * fps), last)


@task("video.slice", epoch="1")
def slice_frames(clip: Clip, start: Index = 0, stop: Index | None = None) -> Clip:
    """Keep the frames from one up to, but not with, another.

    Args:
        clip: What is cut.
        start: The first frame that stays; negative counts from the end.
        stop: The first frame that goes; left out, none does.

    Returns:
        The part, with its sound.

    Example:
        task: video.slice
        arguments: {clip: $step.base, start: 1}
    """
    first, last, _ = slice(start, stop).indices(length_of(clip))
    return cut(clip, first, last)


def cut(clip: Clip, first: int, last: int) -> Clip:
    """Frames `first` up to `last`, and what sounds with them."""
    if not 0 <= first < last <= length_of(clip):
        raise Refused(f"there are no frames from {first} to {last}; the clip has {length_of(clip)}")
    part = with_frames(clip, clip.frames_THWC[first:last])
    if clip.sound is None or clip.fps is None:
        return part
    return replace(part, sound=samples.between(clip.sound, first / clip.fps, last / clip.fps))


@task("video.reverse", epoch="1")
def reverse(clip: Clip) -> Clip:
    """Play a clip backwards, its sound too.

    Args:
        clip: What is reversed.

    Returns:
        The reversed clip.

    Example:
        task: video.reverse
        arguments: {clip: $step.base}
    """
    import numpy as np

    turned = with_frames(clip, clip.frames_THWC[::-1])
    if clip.sound is None:
        return turned
    backwards_CN = np.ascontiguousarray(clip.sound.samples_CN[:, ::-1])
    return replace(turned, sound=replace(clip.sound, samples_CN=backwards_CN))


@task("video.loop", epoch="1")
def loop(
    clip: Clip,
    count: Annotated[int, Field(ge=1, le=10_000)] | None = None,
    seconds: Duration | None = None,
    ping_pong: bool = False,
) -> Clip:
    """Repeat a clip.

    Args:
        clip: What is repeated.
        count: How many times it plays.
        seconds: Or how long, cut at the nearest frame.
        ping_pong: Whether it plays forwards and backwards in turn; the frames at which it turns show once.

    Returns:
        The longer clip, with its sound.

    Example:
        task: video.loop
        arguments: {clip: $step.base, seconds: 10, ping_pong: true}
    """
    from restrike.workflow.tasks.joining import concat

    fps = rate_of(clip, "video.loop")
    if (count is None) == (seconds is None):
        raise Refused("give a count or seconds")
    if ping_pong and length_of(clip) > 2:
        clip = concat([clip, cut(reverse(clip), 1, length_of(clip) - 1)])
    length = length_of(clip)
    total = length * count if count is not None else max(1, round((seconds or 0.0) * fps))
    check_size(total, *size_of(clip))
    return cut(concat([clip] * -(-total // length)), 0, total)
