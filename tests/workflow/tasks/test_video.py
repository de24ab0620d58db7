"""Frames in time: taking apart, putting together, fading, looping, retiming. Sound goes along."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restrike.errors import Refused
from restrike.workflow.tasks.between import by_flow, by_model
from restrike.workflow.tasks.frames import length_of
from restrike.workflow.tasks.joining import concat, crossfade, fade, shots
from restrike.workflow.tasks.pace import interpolate, rate, speed
from restrike.workflow.tasks.picture import pad, resize
from restrike.workflow.tasks.sound import mux, tone
from restrike.workflow.tasks.video import frame, frames, from_frames, hold, loop, reverse, slice_frames, trim
from restrike.workflow.values import Clip

from .making import disc, glass, mixing_network, noise, picture


def same(a: Clip, b: Clip) -> bool:
    pictures = a.fps == b.fps and np.array_equal(a.frames_THWC, b.frames_THWC)
    if a.sound is None or b.sound is None:
        return pictures and a.sound is b.sound
    return pictures and np.array_equal(a.sound.samples_CN, b.sound.samples_CN)


def sounding(count: int = 6, fps: float = 8.0) -> Clip:
    return disc(count, fps=fps, sound=noise(count / fps, 16000, 1))


def error_of(a: Clip, b: Clip) -> float:
    return float(np.abs(a.frames_THWC.astype(int) - b.frames_THWC).mean())


def test_frames_and_back_is_the_clip() -> None:
    assert same(from_frames(frames(disc()), 8), disc())
    assert length_of(from_frames(frames(disc(7), every=3), 8)) == 3
    assert all(part.is_still for part in frames(disc()))


def test_one_frame_by_index_and_by_time() -> None:
    clip = disc(8)
    assert same(frame(clip, index=-1), clip.frame(7))
    assert same(frame(clip, time=0.26), clip.frame(2))
    for wrong in ({"index": 8}, {"time": 1.0}, {}, {"index": 0, "time": 0.0}):
        with pytest.raises(Refused):
            frame(clip, **wrong)


@settings(max_examples=15)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_lengths_add_and_parts_come_back(lengths: list[int]) -> None:
    clips = [sounding(length) for length in lengths]
    joined = concat(clips)
    assert length_of(joined) == sum(lengths)
    assert joined.sound is not None
    assert joined.sound.seconds == pytest.approx(sum(lengths) / 8)
    first = slice_frames(joined, 0, lengths[0])
    assert same(first, clips[0])


@settings(max_examples=10)
@given(st.integers(1, 6))
def test_reverse_twice_is_nothing(count: int) -> None:
    clip = sounding(count)
    assert same(reverse(reverse(clip)), clip)


def test_concat_gives_silence_where_there_is_no_sound() -> None:
    joined = concat([disc(4), sounding(4)])
    assert joined.sound is not None
    assert not joined.sound.samples_CN[:, :8000].any()
    assert joined.sound.samples_CN[:, 8000:].any()


def test_clips_that_do_not_fit_together_are_refused_by_number() -> None:
    with pytest.raises(Refused, match=r"clip 1 is 8x8, clip 0 is 32x32; .*picture\.resize"):
        concat([disc(), resize(disc(), 8, 8)])
    with pytest.raises(Refused, match=r"clip 1 has 12 frames a second, clip 0 has 8; use video\.rate"):
        concat([disc(), disc(fps=12.0)])
    with pytest.raises(Refused, match=r"video\.hold"):
        concat([disc(), picture()])


def test_opacity_is_kept_when_one_clip_has_it() -> None:
    opaque = pad(resize(picture(), 12, 8))
    made = from_frames([opaque, glass()], 8)
    assert made.frames_THWC.shape == (2, 8, 12, 4)
    assert (made.frames_THWC[0, ..., 3] == 255).all()
    assert np.array_equal(made.frames_THWC[1], glass().frames_THWC[0])


def test_trim_keeps_what_sounds_then() -> None:
    clip = sounding(8)
    part = trim(clip, 0.25, 0.75)
    assert np.array_equal(part.frames_THWC, clip.frames_THWC[2:6])
    assert part.sound is not None
    assert clip.sound is not None
    assert np.array_equal(part.sound.samples_CN, clip.sound.samples_CN[:, 4000:12000])
    assert same(concat([trim(clip, 0, 0.5), trim(clip, 0.5)]), clip)
    with pytest.raises(Refused, match="no frames from 8 to 8; the clip has 8"):
        trim(clip, 1.0)


def test_a_dissolve_runs_from_one_clip_into_the_other() -> None:
    dark, light = hold(resize(picture(), 4, 4), 0.5, 8), sounding(6)
    dark = from_frames([replace(frame(dark, 0), frames_THWC=np.zeros((1, 4, 4, 3), np.uint8))] * 6, 8)
    light = from_frames([replace(frame(light, 0), frames_THWC=np.full((1, 4, 4, 3), 200, np.uint8))] * 6, 8)
    made = crossfade([dark, light], 0.375)
    assert length_of(made) == 9
    assert made.frames_THWC[:, 0, 0, 0].tolist() == [0, 0, 0, 50, 100, 150, 200, 200, 200]
    with pytest.raises(Refused, match="clip 1 has 6 frames, its dissolves take 8"):
        crossfade([dark, light, dark], 0.5)


def test_sounds_cross_at_equal_power() -> None:
    first, second = (mux(disc(8), noise(1.0, 16000, 1, seed=seed)) for seed in (1, 2))
    made = crossfade([first, second], 0.5)
    assert made.sound is not None
    assert made.sound.seconds == pytest.approx(1.5)
    assert same(crossfade([first], 0.5), first)


@settings(max_examples=20)
@given(st.lists(st.integers(4, 9), min_size=1, max_size=4), st.sampled_from([0.0, 0.125, 0.25]))
def test_shots_cover_every_frame_once(lengths: list[int], overlap: float) -> None:
    clips = [disc(length, 8) for length in lengths]
    found = shots(clips, overlap)
    joined = crossfade(clips, overlap) if overlap else concat(clips)
    assert [shot["start"] for shot in found] == [0, *(shot["stop"] for shot in found[:-1])]
    assert found[-1]["stop"] == length_of(joined)
    assert found[-1]["stop_seconds"] == length_of(joined) / 8


def test_a_fade_goes_to_the_colour_and_comes_from_it() -> None:
    made = fade(sounding(8), 0.25, 0.25, "white")
    assert (made.frames_THWC[[0, -1]] == 255).all()
    assert np.array_equal(made.frames_THWC[2:6], disc(8).frames_THWC[2:6])
    assert made.sound is not None
    assert abs(made.sound.samples_CN[:, 0]).max() < 1e-3
    assert same(fade(sounding()), sounding())


def test_loops() -> None:
    clip = sounding(4)
    assert same(loop(clip, count=3), concat([clip] * 3))
    assert same(loop(clip, seconds=0.625), trim(concat([clip] * 2), 0, 0.625))
    swinging = loop(disc(4), count=2, ping_pong=True)
    order = [0, 1, 2, 3, 2, 1] * 2
    assert np.array_equal(swinging.frames_THWC, disc(4).frames_THWC[order])
    for wrong in ({}, {"count": 2, "seconds": 1.0}):
        with pytest.raises(Refused, match="a count or seconds"):
            loop(clip, **wrong)


@pytest.mark.parametrize("factor", [0.3, 0.5, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("keep_pitch", [True, False])
def test_speed_changes_pictures_and_sound_alike(factor: float, keep_pitch: bool) -> None:
    made = speed(sounding(12), factor, keep_pitch=keep_pitch)
    assert length_of(made) == max(1, round(12 / factor))
    assert made.fps == 8.0
    assert made.sound is not None
    assert made.sound.seconds == pytest.approx(length_of(made) / 8, abs=1e-3)


def pitch_hz(clip: Clip) -> float:
    assert clip.sound is not None
    level = np.abs(np.fft.rfft(clip.sound.samples_CN[0] * np.hanning(clip.sound.samples_CN.shape[1])))
    return float(level.argmax()) / clip.sound.seconds


def test_pitch_is_kept_or_goes_with_the_speed() -> None:
    clip = mux(disc(16), tone(2.0, 440.0, rate=16000))
    assert pitch_hz(speed(clip, 2.0)) == pytest.approx(440, abs=5)
    assert pitch_hz(speed(clip, 2.0, keep_pitch=False)) == pytest.approx(880, abs=5)
    assert pitch_hz(speed(clip, 0.25)) == pytest.approx(440, abs=5)


def test_another_rate_lasts_as_long() -> None:
    clip = sounding(8)
    made = rate(clip, 24)
    assert length_of(made) == 24
    assert made.fps == 24.0
    assert made.sound is clip.sound
    assert np.array_equal(rate(made, 8).frames_THWC, clip.frames_THWC)
    assert rate(clip, 8.0) is clip


@pytest.mark.parametrize(("way", "share"), [(interpolate, 0.8), (by_flow, 0.4)])
def test_new_frames_are_nearer_the_truth_than_a_blend(way, share: float) -> None:
    truth = disc(11, 64, fps=16.0)
    given = replace(truth, frames_THWC=truth.frames_THWC[::2], fps=8.0)
    made, blended = way(given, 2), interpolate(given, 2, "blend")
    assert length_of(made) == 11
    assert made.fps == 16.0
    assert np.array_equal(made.frames_THWC[::2], given.frames_THWC)
    assert error_of(made, truth) < share * error_of(blended, truth)
    assert np.array_equal(way(made, 3).frames_THWC[::3], made.frames_THWC)


def test_opacity_is_not_lost_by_motion_compensation() -> None:
    see_through = from_frames([glass()] * 3, 8)
    with pytest.raises(Refused, match="takes opaque clips"):
        interpolate(see_through)
    assert by_flow(from_frames([resize(glass(), 16, 16)] * 3, 8)).frames_THWC.shape == (5, 16, 16, 4)


def test_a_network_without_a_time_fills_gaps_by_halves(tmp_path) -> None:
    clip = resize(disc(3), 20, 12)
    made = by_model(clip, *mixing_network(tmp_path, timed=False), factor=4)
    assert length_of(made) == 9
    assert np.array_equal(made.frames_THWC[::4], clip.frames_THWC)
    middle = (clip.frames_THWC[0].astype(int) + clip.frames_THWC[1] + 1) // 2
    assert np.abs(made.frames_THWC[2] - middle).max() <= 1
    with pytest.raises(Refused, match="2, 4, 8 or 16, not 3"):
        by_model(clip, *mixing_network(tmp_path, timed=False), factor=3)


def test_a_network_with_a_time_is_asked_for_each(tmp_path) -> None:
    clip = resize(disc(2), 20, 12)
    made = by_model(clip, *mixing_network(tmp_path, timed=True), factor=3)
    first, last = clip.frames_THWC.astype(float)
    for step in (1, 2):
        assert np.abs(made.frames_THWC[step] - (first + (last - first) * step / 3)).max() <= 1
