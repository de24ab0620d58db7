"""Tasks on loudness as people hear it: ITU-R BS.1770, as EBU R128 uses it, measured by FFmpeg.

LUFS are loudness units relative to full scale; dBTP are decibels of the true peak, between the samples.
"""

from __future__ import annotations

import math
from typing import Annotated, TypedDict

from pydantic import Field

from restrike.errors import Refused
from restrike.workflow.tasks import samples
from restrike.workflow.tasks.filtering import filtered_sound, last_metadata
from restrike.workflow.tasks.registry import task
from restrike.workflow.values import Sound

_SILENT_LUFS = -70.0
_SHORTEST_S = 0.4
_OVERSAMPLING = 4
_TOLERANCE_LU = 0.05
_PEAK_MARGIN_DB = 0.05
_TRIES = 12


class Loudness(TypedDict):
    """`integrated` in LUFS, `true_peak` in dBTP (-120 for silence)."""

    integrated: float
    true_peak: float


@task("sound.loudness", epoch="1")
def loudness(sound: Sound) -> Loudness:
    """Measure how loud a sound is by EBU R128.

    Args:
        sound: At least 0.4 seconds.

    Returns:
        A table: `integrated` loudness in LUFS (-70 for silence) and `true_peak` in dBTP (-120 for silence).

    Example:
        task: sound.loudness
        arguments: {sound: $step.music}
    """
    if sound.seconds < _SHORTEST_S:
        raise Refused(f"loudness takes {_SHORTEST_S} s to measure, the sound lasts {sound.seconds:.2f} s")
    found = last_metadata(sound, [("ebur128", "metadata=1")])
    return Loudness(
        integrated=float(found["lavfi.r128.I"]),
        true_peak=_true_peak_db(sound),
    )


def _true_peak_db(sound: Sound) -> float:
    """The peak between the samples, by oversampling (ITU-R BS.1770, annex 2)."""
    import numpy as np

    peak = max(float(np.abs(part.samples_CN).max(initial=0)) for part in (sound, _oversampled(sound)))
    return 20 * math.log10(max(peak, 1e-6))


def _oversampled(sound: Sound) -> Sound:
    return filtered_sound(sound, [("aresample", str(sound.rate_hz * _OVERSAMPLING))])


@task("sound.normalise", epoch="1")
def normalise(
    sound: Sound,
    target: Annotated[float, Field(ge=-60, le=-5)] = -23.0,
    peak: Annotated[float, Field(ge=-20, le=0)] = -1.0,
) -> Sound:
    """Bring a sound to a loudness by EBU R128.

    Args:
        sound: At least 0.4 seconds, and not silent.
        target: In LUFS: -23 for broadcast in Europe, -16 or -14 for the web.
        peak: The highest true peak, in dBTP; what would go beyond is held down by a limiter.

    Returns:
        The sound within 0.1 LU of the target; refused where the peaks do not allow that.

    Example:
        task: sound.normalise
        arguments: {sound: $step.music, target: -16}
    """
    measured = loudness(sound)
    if measured["integrated"] <= _SILENT_LUFS:
        raise Refused("the sound is silent; there is nothing to bring to a loudness")
    level = target - measured["integrated"]
    if measured["true_peak"] + level <= peak:
        return samples.sound_of(sound.samples_CN * samples.ratio_of(level), sound.rate_hz)
    return _limited_to(sound, target, peak, level)


def _limited_to(sound: Sound, target: float, peak: float, level: float) -> Sound:
    """Raise the level until the limited sound is loud enough, and lower the limit until its peaks fit."""
    reached, ceiling = _SILENT_LUFS, peak
    for _ in range(_TRIES):
        changed = _limited(sound, level, ceiling)
        found = loudness(changed)
        before, reached = reached, found["integrated"]
        over = max(0.0, found["true_peak"] - peak)
        if abs(reached - target) <= _TOLERANCE_LU and not over:
            return changed
        if abs(reached - before) < _TOLERANCE_LU / 5 and not over:
            break
        level, ceiling = level + target - reached, ceiling - (over and over + _PEAK_MARGIN_DB)
    raise Refused(
        f"peaks of at most {peak:g} dBTP allow about {reached:.1f} LUFS, not {target:g}; "
        "ask for less, or allow higher peaks"
    )


def _limited(sound: Sound, level: float, ceiling: float) -> Sound:
    """Louder, with true peaks held down: a look-ahead limiter at four times the rate."""
    import numpy as np

    fast = _oversampled(sound)
    louder_CN = (fast.samples_CN * samples.ratio_of(level)).astype(np.float32)
    limit = f"limit={samples.ratio_of(ceiling):.6f}:attack=5:release=50:level=false:latency=true"
    held = filtered_sound(
        Sound(samples_CN=louder_CN, rate_hz=fast.rate_hz),
        [("alimiter", limit), ("aresample", str(sound.rate_hz))],
    )
    count = sound.samples_CN.shape[1]
    short = max(0, count - held.samples_CN.shape[1])
    return samples.sound_of(np.pad(held.samples_CN, ((0, 0), (0, short)))[:, :count], sound.rate_hz)
