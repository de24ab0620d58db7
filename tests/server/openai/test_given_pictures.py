"""Pictures that a client sends: edits and the first frame of a video, byte for byte as the command line's."""

from __future__ import annotations

import base64
import io
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import OpenAI
from PIL import Image

from serving import Server, served, until

pytestmark = pytest.mark.filterwarnings("ignore:The Sora API:DeprecationWarning")
REVISION = "0123456789abcdef0123456789abcdef01234567"
EDITS, VIDEOS = "someone/tiny-edits", "someone/tiny-i2v"
EDITED: dict[str, Any] = {"seed": 5, "steps": 4, "guidance": 4.0}
FILMED: dict[str, Any] = {"seed": 5, "steps": 2}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the hub's cache, which holds a checkpoint of each kind, and with a picture."""
    from models.pipeline import families
    from models.wan import tiny

    folder = tmp_path_factory.mktemp("given")
    edits = replace(families.FAMILIES["sd"], pipeline="StableDiffusionImg2ImgPipeline")
    families.write(edits, _repository(folder, EDITS))
    tiny.write(_repository(folder, VIDEOS), tiny.TinyWan(image=True))
    picture = Image.radial_gradient("L").resize((32, 32))
    Image.merge("RGB", (picture, picture.rotate(90), Image.new("L", (32, 32), 80))).save(folder / "given.png")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HOME", str(folder / "home"))
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.delenv("HF_HUB_CACHE", raising=False)
        yield folder


def _repository(folder: Path, name: str) -> Path:
    """Where the hub's cache keeps a repository's files."""
    root = folder / "home/hub" / f"models--{name.replace('/', '--')}"
    (root / "refs").mkdir(parents=True)
    (root / "refs/main").write_text(REVISION)
    return root / "snapshots" / REVISION


@pytest.fixture(scope="module")
def server(here: Path) -> Iterator[Server]:
    with served(here / "data", "--devices", "cpu:0") as server:
        yield server


def _by_command_line(here: Path, name: str, *words: str) -> bytes:
    target = here / name
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "restrike",
        "generate",
        "--device",
        "cpu",
        "--no-preview",
    ]
    given = ["--image", str(here / "given.png"), "-o", str(target)]
    ran = subprocess.run([*command, *given, *words], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return target.read_bytes()


def _edited(client: OpenAI, picture: bytes, **given: Any) -> bytes:
    made = client.images.edit(
        model=EDITS, prompt="a boat", image=("given.png", picture), extra_body=EDITED | given
    )
    return base64.b64decode((made.data or [])[0].b64_json or "")


def test_an_edit_is_the_command_lines(client: OpenAI, here: Path) -> None:
    picture = (here / "given.png").read_bytes()
    edited = _edited(client, picture)
    words = ["--card", EDITS, "--seed", "5", "--steps", "4", "--guidance", "4.0", "--native", "a boat"]
    assert edited == _by_command_line(here, "edited.png", *words)
    assert _edited(client, picture) == edited
    # The controls: another seed and another picture make another one.
    assert _edited(client, picture, seed=6) != edited
    turned = io.BytesIO()
    Image.open(io.BytesIO(picture)).rotate(180).save(turned, "png")
    assert _edited(client, turned.getvalue()) != edited


def test_an_edit_needs_its_picture_and_takes_one(client: OpenAI, here: Path) -> None:
    picture = ("given.png", (here / "given.png").read_bytes())
    with pytest.raises(openai.BadRequestError, match="StableDiffusionImg2ImgPipeline refuses the request"):
        client.images.generate(model=EDITS, prompt="a boat", extra_body=EDITED)
    with pytest.raises(openai.BadRequestError, match="mask"):
        client.images.edit(model=EDITS, prompt="a boat", image=picture, mask=picture)


def test_a_video_begins_with_its_picture_as_the_command_lines(client: OpenAI, here: Path) -> None:
    picture = ("given.png", (here / "given.png").read_bytes(), "image/png")
    asked: dict[str, Any] = {"model": VIDEOS, "prompt": "a boat", "size": "32x32", "seconds": "0.3125"}
    with pytest.raises(openai.BadRequestError, match="begins with a picture; send one"):
        client.videos.create(**asked, extra_body=FILMED)
    video = client.videos.create(**asked, input_reference=picture, extra_body=FILMED)
    until(lambda: client.videos.retrieve(video.id).status not in ("queued", "in_progress"), 120.0)
    assert client.videos.retrieve(video.id).error is None
    words = [
        "--card",
        VIDEOS,
        "--seed",
        "5",
        "--steps",
        "2",
        "--size",
        "32x32",
        "--native",
        "--frames",
        "5",
    ]
    made = client.videos.download_content(video.id).read()
    assert made == _by_command_line(here, "filmed.mp4", *words, "a boat")


def test_what_is_no_picture_is_refused_by_name(client: OpenAI) -> None:
    for upload in (b"", b"<svg/>"):
        with pytest.raises(openai.BadRequestError, match="no PNG, JPEG or WebP") as failed:
            client.images.edit(model=EDITS, prompt="a boat", image=("a.png", upload), extra_body=EDITED)
        assert failed.value.param == "image"
