"""Long clips as a chain of segments on one step: each is fed from the one before, and all are joined.

The joined clip has the frames of all segments, less those that a segment repeats of the one before: with
`count` segments of F frames and an overlap of k, it is count * F - (count - 1) * k frames long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from restrike.errors import Refused
from restrike.workflow.graph import Input
from restrike.workflow.tasks.registry import Task
from restrike.workflow.values import Clip, Sound

LAST_FRAME = "last_frame"


def fed(arguments: Mapping[str, Any], feed: Mapping[str, str], before: str) -> dict[str, Any]:
    """The arguments of a segment after the first: what is fed comes from the action `before`."""
    inputs = {
        name: Input(action=before, field=LAST_FRAME if part == LAST_FRAME else None)
        for name, part in feed.items()
    }
    return {**arguments, **inputs}


def join(clips: list[Clip], overlap: int) -> Clip:
    """One clip of all segments; of each but the first, the `overlap` frames that begin it are left out.

    Raises:
        Refused: segments differ in size, or one has no frame beyond the overlap.
    """
    import numpy as np

    first = clips[0]
    for index, clip in enumerate(clips):
        if clip.frames_THWC.shape[1:] != first.frames_THWC.shape[1:]:
            raise Refused(f"segment {index} has another size than the first")
        if index and len(clip.frames_THWC) <= overlap:
            raise Refused(f"segment {index} has {len(clip.frames_THWC)} frames, no more than the overlap")
    frames = [clip.frames_THWC[overlap if index else 0 :] for index, clip in enumerate(clips)]
    return Clip(
        frames_THWC=np.concatenate(frames),
        fps=next((clip.fps for clip in clips if clip.fps is not None), None),
        sound=_sound(clips, overlap),
    )


def _sound(clips: list[Clip], overlap: int) -> Sound | None:
    """The sounds one after another, less those of the frames left out; none if one clip has none."""
    import numpy as np

    sounds = [clip.sound for clip in clips if clip.sound is not None]
    if len(sounds) < len(clips):
        return None
    if len({(sound.rate_hz, len(sound.samples_CN)) for sound in sounds}) > 1:
        raise Refused("the sounds of the segments differ in rate or channels")
    rate_hz = sounds[0].rate_hz
    skipped = [0, *(round(overlap / (clip.fps or 1.0) * rate_hz) for clip in clips[1:])]
    parts = [sound.samples_CN[:, skip:] for sound, skip in zip(sounds, skipped, strict=True)]
    return Sound(samples_CN=np.concatenate(parts, axis=1), rate_hz=rate_hz)


JOIN = Task(name="segments.join", function=join, epoch="1")
"""Not registered: only a step with segments makes this action."""
