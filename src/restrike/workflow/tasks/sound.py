"""Tasks on sound, and on the sound of clips. Levels are in decibels relative to full scale."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from restrike.errors import Refused
from restrike.workflow.tasks import samples
from restrike.workflow.tasks.frames import length_of, rate_of
from restrike.workflow.tasks.kinds import Decibels, Duration, RateHz, Seconds
from restrike.workflow.tasks.registry import task
from restrike.workflow.values import Clip, Sound

Channels = Annotated[int, Field(ge=1, le=2)]


@task("sound.extract", epoch="1")
def extract(clip: Clip) -> Sound:
    """Take the sound out of a clip.

    Args:
        clip: One that has sound; others are refused.

    Returns:
        Its sound.

    Example:
        task: sound.extract
        arguments: {clip: $asset.film.mp4}
    """
    if clip.sound is None:
        raise Refused("the clip has no sound")
    return clip.sound


@task("sound.mux", epoch="1")
def mux(
    clip: Clip,
    sound: Sound,
    mode: Literal["replace", "mix"] = "replace",
    fit: Literal["cut", "loop"] = "cut",
) -> Clip:
    """Put a sound under a clip, just as long as the clip.

    Args:
        clip: The pictures.
        sound: A longer one is cut at the end of the clip.
        mode: Whether it replaces the clip's own sound or is mixed with it.
        fit: What a shorter one does: `cut` leaves silence after it, `loop` begins it again.

    Returns:
        The clip with the sound.

    Example:
        task: sound.mux
        arguments: {clip: $step.base, sound: $step.music, fit: loop}
    """
    seconds = length_of(clip) / rate_of(clip, "sound.mux")
    if fit == "loop":
        sound = _repeated(sound, seconds)
    fitted = samples.between(sound, 0, seconds)
    if mode == "mix" and clip.sound is not None:
        fitted = mix([samples.between(clip.sound, 0, seconds), fitted])
    return replace(clip, sound=fitted)


def _repeated(sound: Sound, seconds: float) -> Sound:
    import numpy as np

    if not sound.samples_CN.shape[1]:
        raise Refused("an empty sound cannot be looped")
    samples.check_length(seconds, sound.rate_hz, sound.samples_CN.shape[0])
    times = int(seconds // sound.seconds) + 1
    return replace(sound, samples_CN=np.tile(sound.samples_CN, (1, times)))


@task("sound.mix", epoch="1")
def mix(
    sounds: Annotated[list[Sound], Field(min_length=1, max_length=100)],
    levels: list[Decibels] | None = None,
    offsets: list[Seconds] | None = None,
) -> Sound:
    """Let several sounds sound at once.

    Args:
        sounds: They may differ in rate and channels; the result has the most of both.
        levels: How much louder or softer each is made, in decibels.
        offsets: When each begins, in seconds.

    Returns:
        The mix, as long as the last sound lasts. If it went beyond full scale, all of it is made softer so
        that its peak just fits.

    Example:
        task: sound.mix
        arguments: {sounds: [$step.voice, $step.music], levels: [0, -12], offsets: [0.5, 0]}
    """
    import numpy as np

    for name, given in (("levels", levels), ("offsets", offsets)):
        if given is not None and len(given) != len(sounds):
            raise Refused(f"{len(given)} {name} for {len(sounds)} sounds")
    even = samples.alike(sounds)
    rate_hz, channels = even[0].rate_hz, even[0].samples_CN.shape[0]
    starts = [round(offset * rate_hz) for offset in offsets or [0.0] * len(even)]
    length = max(start + part.samples_CN.shape[1] for start, part in zip(starts, even, strict=True))
    samples.check_length(length / rate_hz, rate_hz, channels)
    total_CN = np.zeros((channels, length))
    for part, start, level in zip(even, starts, levels or [0.0] * len(even), strict=True):
        total_CN[:, start : start + part.samples_CN.shape[1]] += part.samples_CN * samples.ratio_of(level)
    peak = float(np.abs(total_CN).max(initial=0.0))
    return samples.sound_of(total_CN / max(1.0, peak), rate_hz)


@task("sound.concat", epoch="1")
def concat(sounds: Annotated[list[Sound], Field(min_length=1, max_length=1000)], gap: Seconds = 0.0) -> Sound:
    """Let sounds follow each other.

    Args:
        sounds: In order. They may differ in rate and channels; the result has the most of both.
        gap: Silence between them, in seconds.

    Returns:
        One sound.

    Example:
        task: sound.concat
        arguments: {sounds: [$step.first, $step.second], gap: 0.5}
    """
    pause = samples.silence(gap, sounds[0].rate_hz, sounds[0].samples_CN.shape[0])
    parts = [part for sound in sounds for part in (pause, sound)][1:] if gap else sounds
    return samples.chained(parts)


@task("sound.trim", epoch="1")
def trim(sound: Sound, start: Seconds = 0.0, end: Seconds | None = None) -> Sound:
    """Keep the part of a sound between two times.

    Args:
        sound: What is cut.
        start: In seconds from its beginning.
        end: In seconds from its beginning; left out, its end.

    Returns:
        The part.

    Example:
        task: sound.trim
        arguments: {sound: $step.music, start: 1.5, end: 4}
    """
    until = sound.seconds if end is None else end
    if not start < until <= sound.seconds + 1 / sound.rate_hz:
        raise Refused(
            f"there is no part from {start:g} s to {until:g} s; the sound lasts {sound.seconds:g} s"
        )
    return samples.between(sound, start, min(until, sound.seconds))


@task("sound.fade", epoch="1")
def fade(sound: Sound, fade_in: Seconds = 0.0, fade_out: Seconds = 0.0) -> Sound:
    """Let a sound rise from silence and fall back into it.

    Args:
        sound: What is faded.
        fade_in: How long it rises, in seconds.
        fade_out: How long it falls, in seconds.

    Returns:
        The sound, as long as before.

    Example:
        task: sound.fade
        arguments: {sound: $step.music, fade_in: 0.2, fade_out: 1}
    """
    return samples.faded(sound, fade_in, fade_out)


@task("sound.gain", epoch="1")
def gain(sound: Sound, level: Decibels) -> Sound:
    """Make a sound louder or softer.

    Args:
        sound: What is changed.
        level: In decibels; what would go beyond full scale is clipped there.

    Returns:
        The sound at its new level.

    Example:
        task: sound.gain
        arguments: {sound: $step.music, level: -6}
    """
    return samples.sound_of(sound.samples_CN * samples.ratio_of(level), sound.rate_hz)


@task("sound.tone", epoch="1")
def tone(
    seconds: Duration,
    frequency: Annotated[float, Field(gt=0, le=96000)] = 440.0,
    level: Annotated[float, Field(ge=-120, le=0)] = -12.0,
    rate: RateHz = 48000,
    channels: Channels = 1,
) -> Sound:
    """Make a pure tone.

    Args:
        seconds: How long it lasts.
        frequency: In hertz; at most half the rate.
        level: Of its peaks, in decibels relative to full scale.
        rate: Samples a second.
        channels: 1 for mono, 2 for stereo.

    Returns:
        The tone.

    Example:
        task: sound.tone
        arguments: {seconds: 2, frequency: 440}
    """
    import numpy as np

    if frequency > rate / 2:
        raise Refused(f"{frequency:g} Hz needs a rate of {2 * frequency:g} or more, not {rate}")
    samples.check_length(seconds, rate, channels)
    phase_N = 2 * np.pi * frequency * np.arange(round(seconds * rate)) / rate
    return samples.sound_of(np.tile(samples.ratio_of(level) * np.sin(phase_N), (channels, 1)), rate)


@task("sound.silence", epoch="1")
def silence(seconds: Duration, rate: RateHz = 48000, channels: Channels = 1) -> Sound:
    """Make silence.

    Args:
        seconds: How long it lasts.
        rate: Samples a second.
        channels: 1 for mono, 2 for stereo.

    Returns:
        The silence.

    Example:
        task: sound.silence
        arguments: {seconds: 2}
    """
    return samples.silence(seconds, rate, channels)
