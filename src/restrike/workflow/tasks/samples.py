"""Sound in memory: lengths, cuts, levels, rates. What the tasks on sound and video share; no task is here.

Axes: C channels, N samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from restrike.errors import Refused
from restrike.workflow.tasks.filtering import filtered_sound
from restrike.workflow.values import Sound

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LIMIT_BYTES = 2 << 30
"""Most samples that one task makes: an hour and a half of stereo at 48 kHz."""


def sound_of(samples_CN: NDArray[np.floating], rate_hz: int) -> Sound:
    """A sound of its own memory, with samples beyond full scale cut to it."""
    import numpy as np

    return Sound(
        samples_CN=np.ascontiguousarray(np.clip(samples_CN, -1, 1), dtype=np.float32), rate_hz=rate_hz
    )


def silence(seconds: float, rate_hz: int, channels: int) -> Sound:
    """No sound, for a while."""
    import numpy as np

    check_length(seconds, rate_hz, channels)
    return Sound(samples_CN=np.zeros((channels, round(seconds * rate_hz)), np.float32), rate_hz=rate_hz)


def check_length(seconds: float, rate_hz: int, channels: int) -> None:
    """Refuse a sound that would take more than the limit, before it is made."""
    if seconds * rate_hz * channels * 4 > LIMIT_BYTES:
        raise Refused(
            f"the result would be {seconds:,.0f} s of sound, the limit is {LIMIT_BYTES / 1e9:.1f} GB"
        )


def between(sound: Sound, start_s: float, end_s: float) -> Sound:
    """What sounds between two times; silence where there is nothing any more."""
    import numpy as np

    start, end = round(start_s * sound.rate_hz), round(end_s * sound.rate_hz)
    check_length(end_s - start_s, sound.rate_hz, sound.samples_CN.shape[0])
    part_CN = sound.samples_CN[:, start:end]
    missing = end - start - part_CN.shape[1]
    return sound_of(np.pad(part_CN, ((0, 0), (0, missing))), sound.rate_hz)


def resampled(sound: Sound, rate_hz: int, channels: int) -> Sound:
    """The sound at another rate, and with one channel copied to two."""
    import numpy as np

    if sound.rate_hz != rate_hz:
        length = round(sound.samples_CN.shape[1] * rate_hz / sound.rate_hz)
        changed = filtered_sound(
            sound, [("aresample", f"{rate_hz}:resampler=swr:filter_size=64:phase_shift=10")]
        )
        short = max(0, length - changed.samples_CN.shape[1])
        sound = Sound(
            samples_CN=np.pad(changed.samples_CN, ((0, 0), (0, short)))[:, :length], rate_hz=rate_hz
        )
    if sound.samples_CN.shape[0] < channels:
        return Sound(samples_CN=np.repeat(sound.samples_CN, channels, axis=0), rate_hz=rate_hz)
    return sound


def alike(sounds: Sequence[Sound]) -> list[Sound]:
    """The sounds at the highest of their rates, in stereo when one is."""
    rate_hz = max(sound.rate_hz for sound in sounds)
    channels = max(sound.samples_CN.shape[0] for sound in sounds)
    return [resampled(sound, rate_hz, channels) for sound in sounds]


def chained(sounds: Sequence[Sound]) -> Sound:
    """One after the other."""
    import numpy as np

    even = alike(sounds)
    check_length(sum(sound.seconds for sound in even), even[0].rate_hz, even[0].samples_CN.shape[0])
    return sound_of(np.concatenate([sound.samples_CN for sound in even], axis=1), even[0].rate_hz)


def faded(sound: Sound, fade_in_s: float, fade_out_s: float) -> Sound:
    """The sound with a straight rise at its start and a straight fall at its end."""
    import numpy as np

    count = sound.samples_CN.shape[1]
    at_N = np.arange(count, dtype=np.float64) + 0.5
    gain_N = np.ones(count)
    if fade_in_s > 0:
        gain_N = np.minimum(gain_N, at_N / (fade_in_s * sound.rate_hz))
    if fade_out_s > 0:
        gain_N = np.minimum(gain_N, (count - at_N) / (fade_out_s * sound.rate_hz))
    return sound_of(sound.samples_CN * gain_N, sound.rate_hz)


def ratio_of(decibels: float) -> float:
    """The factor on samples that a level difference means."""
    return 10 ** (decibels / 20)
