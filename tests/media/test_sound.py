"""Sound in MP4 (AAC) and WebM (Opus): same length, same tone, same bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from restrike.errors import Refused
from restrike.media import Audio, Mp4, WebM, encode, read, write

from .clips import disc_clip

TONE_HZ = 440


def tone(rate_hz: int, channels: int, seconds: float = 1.0) -> Audio:
    time_N = np.arange(round(rate_hz * seconds)) / rate_hz
    wave_N = 0.5 * np.sin(2 * np.pi * TONE_HZ * time_N)
    return Audio(samples_CN=np.stack([wave_N] * channels).astype(np.float32), rate_hz=rate_hz)


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("rate_hz", [16_000, 24_000, 44_100, 48_000, 50_000])
@pytest.mark.parametrize("name", ["a.mp4", "a.webm"])
def test_sound_reads_back(tmp_path: Path, name: str, rate_hz: int, channels: int) -> None:
    write(tmp_path / name, disc_clip(), fps=16, audio=tone(rate_hz, channels))
    media = read(tmp_path / name)
    assert media.frames_THWC.shape == disc_clip().shape
    assert media.audio is not None
    samples_CN = media.audio.samples_CN
    assert samples_CN.shape[0] == channels
    assert samples_CN.shape[1] / media.audio.rate_hz == pytest.approx(1.0, abs=0.002)
    spectrum = np.abs(np.fft.rfft(samples_CN[0]))
    assert spectrum.argmax() * media.audio.rate_hz / samples_CN.shape[1] == pytest.approx(TONE_HZ, abs=2)
    assert np.abs(samples_CN).max() == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("seconds", [0.1, 30.0])
@pytest.mark.parametrize("name", ["a.mp4", "a.webm"])
def test_sound_may_be_shorter_or_longer_than_the_pictures(tmp_path: Path, name: str, seconds: float) -> None:
    write(tmp_path / name, disc_clip(), fps=16, audio=tone(16_000, 1, seconds))
    media = read(tmp_path / name)
    assert media.audio is not None
    assert media.audio.samples_CN.shape[1] / media.audio.rate_hz == pytest.approx(seconds, abs=0.002)
    assert (len(media.frames_THWC), media.fps) == (16, 16)


@pytest.mark.parametrize("container", [Mp4(), WebM()], ids=["mp4", "webm"])
def test_sound_gives_the_same_bytes(container: Mp4 | WebM) -> None:
    encoded = {encode(disc_clip(), container, fps=16, audio=tone(24_000, 2)) for _ in range(2)}
    assert len(encoded) == 1


def test_a_file_without_sound_has_none(tmp_path: Path) -> None:
    write(tmp_path / "a.mp4", disc_clip(), fps=16)
    assert read(tmp_path / "a.mp4").audio is None


@pytest.mark.parametrize(
    ("samples", "rate_hz", "named"),
    [
        (np.zeros(8, np.float32), 48_000, "shape"),
        (np.zeros((1, 8), np.float64), 48_000, "float32"),
        (np.zeros((6, 8), np.float32), 48_000, "1 or 2"),
        (np.zeros((1, 0), np.float32), 48_000, "samples"),
        (np.full((1, 8), np.nan, np.float32), 48_000, "finite"),
        (np.zeros((1, 8), np.float32), 0, "rate"),
    ],
)
def test_other_sound_is_refused(samples: np.ndarray, rate_hz: int, named: str) -> None:
    with pytest.raises(Refused, match=named):
        Audio(samples_CN=samples, rate_hz=rate_hz)
