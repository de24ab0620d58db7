"""Files that other programs made, and files that are torn, foreign or hostile."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import zlib
from fractions import Fraction
from functools import partial
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from restrike.errors import NotFound, Refused
from restrike.media import provenance_of, read, read_picture, write

from .clips import disc_clip, noise_clip, provenance_with

ALL = ["a.png", "a.jpg", "a.webp", "a.gif", "a.mp4", "a.webm"]


def written(folder: Path, name: str, prompt: str = "a red circle") -> Path:
    frame_count = 1 if name.endswith(("png", "jpg")) else 16
    write(folder / name, disc_clip(frame_count), fps=16, provenance=provenance_with(prompt))
    return folder / name


def refusal(path: Path) -> str:
    with pytest.raises(Refused) as failure:
        read(path)
    assert str(path) in failure.value.message
    assert "\n" not in failure.value.message
    return failure.value.message


@pytest.mark.parametrize("kept", [0.05, 0.3, 0.6, 0.9, 0.99])
@pytest.mark.parametrize("name", ALL)
def test_a_file_that_was_cut_off_is_refused(tmp_path: Path, name: str, kept: float) -> None:
    path = written(tmp_path, name)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * kept)])
    refusal(path)


def test_a_gif_that_stops_between_two_frames_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "a.gif")
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rindex(b"!\xf9")])
    assert "stops before its end" in refusal(path)


@pytest.mark.parametrize("content", [b"", b"hello", b"<svg/>", b"\0" * 100, b"BM" + b"\0" * 100, b"%PDF-1.7"])
def test_what_is_no_medium_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.png").write_bytes(content)
    assert "it is none of PNG, JPEG, WebP, GIF, MP4, WebM" in refusal(tmp_path / "a.png")


@pytest.mark.parametrize("name", ALL)
def test_a_start_without_the_rest_is_refused(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, name)
    path.write_bytes(path.read_bytes()[:16] + b"\xa5" * 400)
    refusal(path)


@pytest.mark.parametrize("function", [read, provenance_of])
def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path, function: type) -> None:
    with pytest.raises(NotFound, match="there is no file"):
        function(tmp_path / "a.png")
    with pytest.raises(Refused, match="it is a folder"):
        function(tmp_path)


def test_the_content_decides_not_the_name(tmp_path: Path) -> None:
    path = written(tmp_path, "a.webm").rename(tmp_path / "download")
    assert read(path).container.name == "WebM"


@pytest.mark.parametrize("name", ALL)
def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, name)
    size_bytes = read(path).frames_THWC.nbytes
    with pytest.raises(Refused, match="the limit is"):
        read(path, limit_bytes=size_bytes - 1)
    read(path, limit_bytes=size_bytes)


def _png_of(width_px: int, height_px: int) -> bytes:
    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", width_px, height_px, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )


def test_a_bomb_is_refused_by_its_header(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(_png_of(100_000, 100_000))
    assert "100000x100000 unpack to 30,000 MB, the limit is" in refusal(tmp_path / "a.png")


def test_a_long_soundtrack_counts_too(tmp_path: Path) -> None:
    from restrike.media import Audio

    silence = Audio(samples_CN=np.zeros((1, 48_000 * 20), np.float32), rate_hz=48_000)
    write(tmp_path / "a.webm", disc_clip(1, 8, 8), fps=1, audio=silence)
    with pytest.raises(Refused, match="sound unpacks to more than"):
        read(tmp_path / "a.webm", limit_bytes=1_000_000)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF"])
def test_pictures_of_other_programs_have_no_provenance(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind.lower()}"
    exif = Image.Exif()
    exif.get_ifd(0x8769)[0x9286] = b"ASCII\0\0\0my holiday"
    Image.fromarray(disc_clip(1)[0]).save(path, kind, comment=b"my holiday", exif=exif)
    assert provenance_of(path) is None
    assert read(path).provenance is None


def _foreign_video(
    path: Path, format_name: str, codec: str, pixel_format: str = "yuv420p", **tags: str
) -> None:
    with av.open(str(path), "w", format=format_name) as output:
        stream = output.add_stream(codec, rate=Fraction(24))
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = 64, 64, pixel_format
        output.metadata.update(tags)
        for frame_HWC in disc_clip(5):
            output.mux(stream.encode(av.VideoFrame.from_ndarray(frame_HWC, format="rgb24")))
        output.mux(stream.encode(None))


@pytest.mark.parametrize(
    ("name", "format_name", "codec"),
    [
        ("a.mp4", "mp4", "mpeg4"),
        ("a.mov", "mov", "libx264"),
        ("a.mkv", "matroska", "libx264"),
        ("b.webm", "webm", "libvpx"),
    ],
)
def test_videos_of_other_programs_are_read(tmp_path: Path, name: str, format_name: str, codec: str) -> None:
    _foreign_video(tmp_path / name, format_name, codec, comment="my holiday", title="sea")
    media = read(tmp_path / name)
    assert media.frames_THWC.shape == (5, 64, 64, 3)
    assert (media.fps, media.provenance, provenance_of(tmp_path / name)) == (24, None, None)


def test_a_video_without_pictures_is_refused(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "a.mp4"), "w") as output:
        stream = output.add_stream("aac", rate=48_000)
        frame = av.AudioFrame.from_ndarray(np.zeros((2, 4800), np.float32), format="fltp", layout="stereo")
        frame.sample_rate = 48_000
        output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    assert "it holds no pictures" in refusal(tmp_path / "a.mp4")


def test_a_gif_frame_that_outgrows_the_canvas_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "a.gif")
    data = bytearray(path.read_bytes())
    last = data.rindex(b"!\xf9\x04")
    # Eight bytes of graphic control, then `,` and left, top, width, height of the frame.
    data[last + 13 : last + 17] = struct.pack("<HH", 60_000, 20_000)
    path.write_bytes(data)
    refusal(path)


def test_a_phone_video_is_turned_upright(tmp_path: Path) -> None:
    clip_THWC = disc_clip(2, 32, 64)
    write(tmp_path / "a.mp4", clip_THWC, fps=8)
    data = bytearray((tmp_path / "a.mp4").read_bytes())
    # The matrix of the track header (ISO 14496-12, 8.3.2): show it turned a quarter clockwise.
    matrix = data.index(b"tkhd") + 44
    data[matrix : matrix + 36] = struct.pack(">9i", 0, 1 << 16, 0, -(1 << 16), 0, 0, 0, 0, 1 << 30)
    (tmp_path / "b.mp4").write_bytes(data)
    upright_THWC = read(tmp_path / "b.mp4").frames_THWC
    assert np.array_equal(upright_THWC, np.rot90(read(tmp_path / "a.mp4").frames_THWC, -1, axes=(1, 2)))


def test_a_phone_picture_is_turned_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(noise_clip(1)[0]).save(tmp_path / "a.png", exif=exif)
    assert np.array_equal(read_picture(tmp_path / "a.png"), np.rot90(noise_clip(1)[0], -1))


def test_other_pixel_kinds_become_rgb(tmp_path: Path) -> None:
    grey_HW = np.arange(64, dtype=np.uint8).reshape(8, 8) * 4
    Image.fromarray(grey_HW).save(tmp_path / "grey.png")
    Image.fromarray(grey_HW.astype(np.uint16) * 257).save(tmp_path / "deep.png")
    Image.fromarray(np.dstack([grey_HW] * 3 + [grey_HW * 0])).save(tmp_path / "clear.png")
    for name in ("grey", "deep", "clear"):
        assert np.array_equal(read_picture(tmp_path / f"{name}.png"), np.dstack([grey_HW] * 3)), name


def test_a_clip_is_no_picture(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="holds 16 frames; give one picture"):
        read_picture(written(tmp_path, "a.gif"))


@pytest.mark.parametrize("name", ALL)
def test_a_torn_provenance_is_refused_by_name(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, name)
    whole = path.read_bytes()
    torn = whole.replace(b'"schema":1', b'"schema":}')
    if name == "a.png":  # its chunks carry checksums
        start = torn.index(b"tEXt")
        length = int.from_bytes(torn[start - 4 : start], "big")
        checksum = struct.pack(">I", zlib.crc32(torn[start : start + 4 + length]))
        torn = torn[: start + 4 + length] + checksum + torn[start + 8 + length :]
    assert torn != whole
    path.write_bytes(torn)
    for function in (read, provenance_of):
        with pytest.raises(Refused, match=r"its provenance is torn") as failure:
            function(path)
        assert str(path) in failure.value.message


def test_a_jpeg_comment_that_only_begins_like_ours_is_not_ours(tmp_path: Path) -> None:
    for comment in (b"restrike is fun", b"restrike 1/x {}", b"restrike 1/1 {}"):
        Image.fromarray(disc_clip(1)[0]).save(tmp_path / "a.jpg", comment=comment)
        assert provenance_of(tmp_path / "a.jpg") is None


def test_a_missing_part_of_a_long_jpeg_note_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "a.jpg", prompt="x" * 200_000)
    whole = path.read_bytes()
    assert provenance_of(path) is not None
    part = whole.index(b"restrike 2/")
    length = int.from_bytes(whole[part - 2 : part], "big")
    path.write_bytes(whole[: part - 4] + whole[part - 2 + length :])
    with pytest.raises(Refused, match="its provenance is torn"):
        provenance_of(path)


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.mp4", "a.gif"])
def test_provenance_is_read_without_the_pixels(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, name)
    whole = path.read_bytes()
    # All these notes stand before the pixels, so they are there even when most of the pixels are not.
    path.write_bytes(whole[: len(whole) - len(whole) // 8])
    assert provenance_of(path) == provenance_with("a red circle")


def test_a_playlist_cannot_make_us_open_other_files(tmp_path: Path) -> None:
    written(tmp_path, "secret.mp4")
    for text in ("#EXTM3U\n#EXTINF:1,\nsecret.mp4\n", "ffconcat version 1.0\nfile secret.mp4\n"):
        (tmp_path / "a.mp4").write_text(text)
        refusal(tmp_path / "a.mp4")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ALL)
def test_damaged_bytes_never_escape_as_another_error(tmp_path: Path, name: str, seed: int) -> None:
    path = written(tmp_path, name)
    whole = path.read_bytes()
    random = np.random.default_rng(seed)
    messages: list[str] = []
    for _ in range(8):
        data = bytearray(whole)
        for position in random.integers(0, len(data), 6):
            data[position] = random.integers(0, 256)
        path.write_bytes(data)
        for function in (partial(read, limit_bytes=10_000_000), provenance_of):
            try:
                function(path)
            except Refused as error:
                messages.append(error.message)
    assert "\n" not in "".join(messages)


def test_importing_the_package_loads_no_codec() -> None:
    script = "import restrike.media, sys; print({'numpy', 'PIL', 'av', 'torch'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "set()"


def test_a_picture_loads_no_video_codec(tmp_path: Path) -> None:
    script = (
        "import numpy as np, sys\nfrom restrike.media import write, read\n"
        "write(sys.argv[1], np.zeros((1, 8, 8, 3), np.uint8)); read(sys.argv[1]); print('av' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "a.png")],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == "False"


def test_a_buffer_of_the_file_is_not_kept_open(tmp_path: Path) -> None:
    path = written(tmp_path, "a.webp")
    media = read(path)
    path.write_bytes(io.BytesIO().getvalue())
    assert media.frames_THWC.shape == (16, 64, 64, 3)
