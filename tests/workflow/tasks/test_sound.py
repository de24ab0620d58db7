"""Sound: lengths, levels, mixes, and loudness by EBU R128."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restrike.errors import Refused
from restrike.workflow.tasks.loudness import loudness, normalise
from restrike.workflow.tasks.samples import resampled
from restrike.workflow.tasks.sound import concat, extract, fade, gain, mix, mux, silence, tone, trim
from restrike.workflow.values import Sound

from .making import disc, noise, picture


def level_db(sound: Sound) -> float:
    return 20 * float(np.log10(abs(sound.samples_CN).max()))


@pytest.mark.parametrize(("level", "lufs"), [(-23.0, -23.0), (-33.0, -33.0)])
def test_loudness_of_the_ebu_test_signal(level: float, lufs: float) -> None:
    """EBU Tech 3341, cases 1 and 2: a stereo sine of 1 kHz at -23 dBFS is -23 LUFS, within 0.1."""
    found = loudness(tone(8.0, 1000.0, level, 16000, 2))
    assert found["integrated"] == pytest.approx(lufs, abs=0.1)
    assert found["true_peak"] == pytest.approx(level, abs=0.1)


def test_loudness_is_gated() -> None:
    """EBU Tech 3341, case 3: soft parts of -36 dBFS around -23 dBFS do not count."""
    soft, loud = (tone(s, 1000.0, level, 16000, 2) for s, level in ((4.0, -36.0), (24.0, -23.0)))
    assert loudness(concat([soft, loud, soft]))["integrated"] == pytest.approx(-23.0, abs=0.1)


def test_the_true_peak_lies_between_the_samples() -> None:
    """EBU Tech 3341, case 15 by its sense: a sine at a quarter of the rate, sampled beside its peaks."""
    rate_hz = 48000
    phase_N = np.arange(rate_hz) * np.pi / 2 + np.pi / 4
    sound = Sound(samples_CN=(0.5 * np.sin(phase_N))[None].astype(np.float32), rate_hz=rate_hz)
    assert level_db(sound) == pytest.approx(-9.03, abs=0.02)
    # Without the fades, the sudden start itself would ring higher.
    assert loudness(fade(sound, 0.1, 0.1))["true_peak"] == pytest.approx(-6.02, abs=0.2)


@settings(max_examples=8)
@given(st.floats(-40, -14), st.integers(1, 2))
def test_normalised_sound_is_as_loud_as_asked(target: float, channels: int) -> None:
    made = normalise(noise(1.5, channels=channels), target)
    found = loudness(made)
    assert found["integrated"] == pytest.approx(target, abs=0.1)
    assert found["true_peak"] <= -1.0 + 0.01


def test_a_limiter_holds_the_peaks_down() -> None:
    sound = noise(2.0)
    raised = loudness(sound)["true_peak"] - loudness(sound)["integrated"] - 10
    assert raised > -1.0, "without a limiter the peaks would go beyond"
    made = normalise(sound, -10.0)
    assert made.samples_CN.shape == sound.samples_CN.shape
    assert loudness(made)["integrated"] == pytest.approx(-10, abs=0.1)
    assert loudness(made)["true_peak"] <= -1.0 + 0.01


def test_what_cannot_be_normalised_is_refused() -> None:
    with pytest.raises(Refused, match="is silent"):
        normalise(silence(1.0))
    with pytest.raises(Refused, match=r"0\.4 s to measure, the sound lasts 0\.20 s"):
        normalise(noise(0.2))
    with pytest.raises(Refused, match=r"allow about .* LUFS, not -5"):
        normalise(noise(1.0), -5.0, -12.0)


def test_mix_adds_at_offsets_and_levels() -> None:
    low, high = tone(0.5, 200.0, -12.0), tone(0.5, 800.0, -12.0)
    made = mix([low, high], [0.0, -6.0], [0.0, 0.25])
    assert made.seconds == pytest.approx(0.75)
    assert np.array_equal(made.samples_CN[:, :12000], low.samples_CN[:, :12000])
    expected = high.samples_CN[:, 12000:] * 10 ** (-6 / 20)
    assert np.allclose(made.samples_CN[:, 24000:], expected, atol=1e-6)
    with pytest.raises(Refused, match="1 levels for 2 sounds"):
        mix([low, high], levels=[0.0])


def test_a_mix_that_is_too_loud_just_fits() -> None:
    made = mix([tone(0.2, 300.0, 0.0), tone(0.2, 300.0, 0.0)])
    assert level_db(made) == pytest.approx(0.0, abs=1e-3)


def test_sounds_of_other_rates_and_channels_meet() -> None:
    made = concat([noise(0.2, 16000, 1), noise(0.2, 44100, 2)], gap=0.1)
    assert made.rate_hz == 44100
    assert made.samples_CN.shape == (2, 22050)


@settings(max_examples=8)
@given(st.sampled_from([8000, 16000, 22050, 44100, 48000, 96000]))
def test_another_rate_is_the_same_sound(rate_hz: int) -> None:
    made = resampled(tone(0.5, 400.0, -6.0, rate=32000), rate_hz, 1)
    assert made.seconds == pytest.approx(0.5, abs=1 / rate_hz)
    expected_N = 10 ** (-6 / 20) * np.sin(2 * np.pi * 400 * np.arange(made.samples_CN.shape[1]) / rate_hz)
    edge = rate_hz // 100
    assert np.abs(made.samples_CN[0] - expected_N)[edge:-edge].max() < 2e-3


def test_trim_and_concat_give_the_sound_back() -> None:
    sound = noise(1.0)
    parts = [trim(sound, 0.0, 0.4), trim(sound, 0.4)]
    assert np.array_equal(concat(parts).samples_CN, sound.samples_CN)
    with pytest.raises(Refused, match=r"from 2 s to 1 s; the sound lasts 1 s"):
        trim(sound, 2.0)


def test_gain_and_fade() -> None:
    sound = tone(1.0, 440.0, -20.0)
    assert level_db(gain(sound, 6.0)) == pytest.approx(-14.0, abs=0.01)
    assert level_db(gain(sound, 40.0)) == pytest.approx(0.0)
    made = fade(sound, 0.25, 0.5).samples_CN[0]
    assert abs(made[0]) < 1e-4
    assert abs(made[-1]) < 1e-4
    assert np.allclose(made[12000:24000], sound.samples_CN[0, 12000:24000])


def test_mux_fits_the_sound_to_the_pictures() -> None:
    clip = disc(8)
    cut = mux(clip, noise(3.0)).sound
    short = mux(clip, noise(0.25)).sound
    looped = mux(clip, noise(0.25), fit="loop").sound
    assert cut is not None
    assert short is not None
    assert looped is not None
    assert cut.seconds == short.seconds == looped.seconds == 1.0
    assert not short.samples_CN[:, 12000:].any()
    assert np.array_equal(looped.samples_CN[:, :12000], looped.samples_CN[:, 12000:24000])
    over = mux(mux(clip, tone(1.0, 200.0)), tone(1.0, 800.0), mode="mix").sound
    assert over is not None
    assert np.allclose(over.samples_CN, tone(1.0, 200.0).samples_CN + tone(1.0, 800.0).samples_CN, atol=1e-6)


def test_extract_gives_what_was_put_in() -> None:
    sound = noise(1.0)
    assert np.array_equal(extract(mux(disc(8), sound)).samples_CN, sound.samples_CN)
    with pytest.raises(Refused, match="has no sound"):
        extract(disc())
    with pytest.raises(Refused, match=r"video\.hold"):
        mux(picture(), sound)


def test_a_tone_is_what_it_says() -> None:
    made = tone(0.5, 1000.0, -6.0, channels=2)
    level_F = np.abs(np.fft.rfft(made.samples_CN[0]))
    assert level_F.argmax() / 0.5 == 1000
    assert level_db(made) == pytest.approx(-6.0, abs=0.01)
    with pytest.raises(Refused, match="needs a rate of 40000"):
        tone(0.1, 20000.0, rate=16000)
