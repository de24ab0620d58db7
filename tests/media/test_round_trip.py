"""What is written reads back: pixels, rate and provenance, in all six containers; always the same bytes."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from restrike.errors import Refused
from restrike.media import (
    Container,
    Gif,
    Mp4,
    Png,
    WebM,
    WebP,
    encode,
    enlarge,
    provenance_of,
    read,
    write,
)

from .clips import disc_clip, noise_clip, provenance_with, psnr_db

LOSSLESS: list[tuple[str, Container]] = [
    ("a.webp", WebP(lossless=True)),
    ("a.webm", WebM(lossless=True)),
]
# The least PSNR in dB on the 64x64 disc; its saturated edge is what 4:2:0 colour costs most.
LOSSY: list[tuple[str, Container, float]] = [
    ("a.webp", WebP(), 32),
    ("a.gif", Gif(), 40),
    ("a.mp4", Mp4(), 32),
    ("a.webm", WebM(), 33),
]
ALL = ["a.png", "a.jpg", "a.webp", "a.gif", "a.mp4", "a.webm"]
PROMPTS = {
    "plain": "a red circle moving left",
    "empty": "",
    "quotes": '"it\'s" \\ /* */ <b>&amp;</b> %s {} ${x} ]]> \x00 \x1b[31m',
    "lines": "one\ntwo\r\nthree\ttab",
    "scripts": "красный круг 红色圆圈 🔴⬅️ e\u0301 \U0010ffff",
    "long": "🔴" * (1 << 14),
    "longest": "я" * (1 << 17),
}


def clip_for(name: str) -> NDArray[np.uint8]:
    return disc_clip(1 if name.endswith(("png", "jpg")) else 16)


@pytest.mark.parametrize(
    "clip_THWC", [disc_clip(), noise_clip(), disc_clip(1)], ids=["disc", "noise", "still"]
)
@pytest.mark.parametrize(("name", "options"), LOSSLESS)
def test_lossless_containers_give_back_every_pixel(
    tmp_path: Path, name: str, options: Container, clip_THWC: NDArray[np.uint8]
) -> None:
    write(tmp_path / name, clip_THWC, fps=16, options=options)
    assert np.array_equal(read(tmp_path / name).frames_THWC, clip_THWC)


def test_png_gives_back_every_pixel(tmp_path: Path) -> None:
    noise_THWC = noise_clip(1)
    write(tmp_path / "a.png", noise_THWC)
    assert np.array_equal(read(tmp_path / "a.png").frames_THWC, noise_THWC)


def test_a_gif_of_few_colours_is_lossless(tmp_path: Path) -> None:
    few_THWC = noise_clip(4) // 64 * 64
    write(tmp_path / "a.gif", few_THWC, fps=10)
    assert np.array_equal(read(tmp_path / "a.gif").frames_THWC, few_THWC)


@pytest.mark.parametrize(("name", "options", "bar_db"), LOSSY)
def test_lossy_containers_stay_close(tmp_path: Path, name: str, options: Container, bar_db: float) -> None:
    clip_THWC = disc_clip()
    write(tmp_path / name, clip_THWC, fps=16, options=options)
    media = read(tmp_path / name)
    assert media.frames_THWC.shape == clip_THWC.shape
    assert psnr_db(media.frames_THWC, clip_THWC) >= bar_db
    # No cast: a wrong colour matrix or range moves the mean of a channel by several levels.
    drift_C = media.frames_THWC.mean((0, 1, 2)) - clip_THWC.mean((0, 1, 2))
    assert np.abs(drift_C).max() < 1.5


def test_jpeg_stays_close(tmp_path: Path) -> None:
    write(tmp_path / "a.jpg", disc_clip(1))
    assert psnr_db(read(tmp_path / "a.jpg").frames_THWC, disc_clip(1)) >= 40


@pytest.mark.parametrize("fps", [8, 16, 24, 12.5, 23.976, 30])
@pytest.mark.parametrize("name", ["a.mp4", "a.webm"])
def test_videos_keep_the_rate(tmp_path: Path, name: str, fps: float) -> None:
    write(tmp_path / name, disc_clip(5, 16, 16), fps=fps)
    assert read(tmp_path / name).fps == pytest.approx(fps, rel=1e-6)


@pytest.mark.parametrize("name", ["a.gif", "a.webp"])
def test_animations_keep_the_rate_to_half_a_tick(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, disc_clip(16, 16, 16), fps=16)
    assert read(tmp_path / name).fps == 16


@pytest.mark.parametrize("name", ["a.gif", "a.webp", "a.mp4", "a.webm"])
def test_frames_that_stand_still_are_all_kept(tmp_path: Path, name: str) -> None:
    still_THWC = np.repeat(disc_clip(1), 12, axis=0)
    write(tmp_path / name, still_THWC, fps=16)
    media = read(tmp_path / name)
    assert media.frames_THWC.shape == still_THWC.shape
    assert media.fps == pytest.approx(16)


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (33, 65), (8, 8)])
@pytest.mark.parametrize("name", ["a.gif", "a.webp", "a.webm"])
def test_any_size_is_kept(tmp_path: Path, name: str, size: tuple[int, int]) -> None:
    write(tmp_path / name, disc_clip(3, *size), fps=10)
    assert read(tmp_path / name).frames_THWC.shape == (3, *size, 3)


@pytest.mark.parametrize("size", [(2, 2), (8, 8), (34, 66)])
def test_any_even_size_fits_in_mp4(tmp_path: Path, size: tuple[int, int]) -> None:
    write(tmp_path / "a.mp4", disc_clip(3, *size), fps=10)
    assert read(tmp_path / "a.mp4").frames_THWC.shape == (3, *size, 3)


@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS.keys())
@pytest.mark.parametrize("name", ALL)
def test_provenance_survives(tmp_path: Path, name: str, prompt: str) -> None:
    provenance = provenance_with(prompt)
    write(tmp_path / name, clip_for(name), fps=16, provenance=provenance)
    assert provenance_of(tmp_path / name) == provenance
    assert read(tmp_path / name).provenance == provenance


@pytest.mark.parametrize("name", ["a.png", "a.webp", "a.gif"])
def test_provenance_survives_in_a_single_picture(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, disc_clip(1), provenance=provenance_with())
    media = read(tmp_path / name)
    assert (media.provenance, media.fps) == (provenance_with(), None)


@pytest.mark.parametrize("name", ALL)
def test_without_provenance_there_is_none(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, clip_for(name), fps=16)
    assert provenance_of(tmp_path / name) is None


_WRITE_ALL = """
import sys, pathlib
sys.path.insert(0, sys.argv[2])
from media.test_round_trip import ALL, clip_for, provenance_with
from restrike.media import write
for name in ALL:
    write(pathlib.Path(sys.argv[1]) / name, clip_for(name), fps=16, provenance=provenance_with())
"""


def test_another_process_writes_the_same_bytes(tmp_path: Path) -> None:
    digests: list[dict[str, str]] = []
    for run in ("one", "two"):
        folder = tmp_path / run
        folder.mkdir()
        tests = Path(__file__).parents[1]
        subprocess.run([sys.executable, "-c", _WRITE_ALL, str(folder), str(tests)], check=True, timeout=120)
        digests.append(
            {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}
        )
    assert digests[0] == digests[1]
    assert sorted(digests[0]) == sorted(ALL)
    for name in ALL:
        write(tmp_path / name, clip_for(name), fps=16, provenance=provenance_with("another"))
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() != digests[0][name]


def _stir_memory() -> None:
    """Leave the allocator full of other bytes, for an encoder that reads what it did not write."""
    for size_bytes in (1024, 4096, 6144, 12_288, 100_000):
        _ = [np.full(size_bytes, i, np.uint8) for i in range(60)]


@pytest.mark.parametrize("container", [Gif(), WebP(), Mp4(), WebM()], ids=lambda container: container.name)
def test_what_was_in_memory_before_does_not_show(container: Container) -> None:
    encoded: set[bytes] = set()
    for _ in range(8):
        _stir_memory()
        encoded.add(encode(disc_clip(), container, fps=16))
    assert len(encoded) == 1


@pytest.mark.parametrize("name", ALL)
def test_encode_gives_the_bytes_that_write_writes(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, clip_for(name), fps=16, provenance=provenance_with())
    container = read(tmp_path / name).container
    assert (
        encode(clip_for(name), container, fps=16, provenance=provenance_with())
        == (tmp_path / name).read_bytes()
    )


def test_mp4_can_start_before_it_is_loaded_whole() -> None:
    data = encode(disc_clip(), Mp4(), fps=16)
    assert data.index(b"moov") < data.index(b"mdat")


def test_an_animation_plays_for_ever_or_once() -> None:
    clip_THWC = disc_clip(2, 8, 8)
    assert b"NETSCAPE2.0" in encode(clip_THWC, Gif(), fps=10)
    assert b"NETSCAPE2.0" not in encode(clip_THWC, Gif(loop=False), fps=10)
    assert encode(clip_THWC, WebP(), fps=10) != encode(clip_THWC, WebP(loop=False), fps=10)


@pytest.mark.parametrize("container", [Png(), WebM()], ids=lambda container: container.name)
@pytest.mark.parametrize(
    "frames",
    [
        np.zeros((1, 8, 8), np.uint8),
        np.zeros((1, 8, 8, 4), np.uint8),
        np.zeros((0, 8, 8, 3), np.uint8),
        np.zeros((1, 8, 8, 3), np.float32),
    ],
    ids=["no axis", "alpha", "no frame", "float"],
)
def test_other_arrays_are_refused(container: Container, frames: NDArray[np.uint8]) -> None:
    with pytest.raises(Refused, match="frames must be uint8 of shape"):
        encode(frames, container, fps=8)


def test_frames_need_not_lie_in_one_block(tmp_path: Path) -> None:
    strided_THWC = disc_clip(4, 128, 64)[::2, ::2, ::-1]
    for name, options in LOSSLESS:
        write(tmp_path / name, strided_THWC, fps=8, options=options)
        assert np.array_equal(read(tmp_path / name).frames_THWC, strided_THWC)


def test_enlarge_makes_squares() -> None:
    pixels_THWC = noise_clip(2, 3, 4)
    large_THWC = enlarge(pixels_THWC, 5)
    assert large_THWC.shape == (2, 15, 20, 3)
    assert all(np.array_equal(large_THWC[:, i::5, j::5], pixels_THWC) for i in range(5) for j in range(5))
    assert np.array_equal(enlarge(pixels_THWC, 1), pixels_THWC)
    with pytest.raises(Refused, match="1 or more"):
        enlarge(pixels_THWC, 0)
