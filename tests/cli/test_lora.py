"""`restrike generate --lora`: files with strengths, what provenance keeps, and how --from finds them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import SEVEN, Restrike
from engine.weights.loras import lora, written
from restrike.cards.adapters import Adapter
from restrike.cli import values
from restrike.cli.adapters import recorded_adapters
from restrike.errors import Refused
from restrike.media import provenance_of


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with `a.safetensors` and `b.safetensors`, elsewhere."""
    from restrike.engine.engine import Engine

    transformer = Engine(device="cpu").load("digits").component("transformer")
    folder = tmp_path / "loras"
    folder.mkdir()
    for seed, name in enumerate("ab"):
        written(folder / f"{name}.safetensors", lora(transformer, seed=seed))
    return folder


def test_a_lora_changes_the_picture_and_strength_scales_it(restrike: Restrike, files: Path) -> None:
    a = files / "a.safetensors"
    for name, flags in {"base": (), "full": (a,), "half": (f"{a}:0.5",), "none": (f"{a}:0",)}.items():
        flagged = [part for flag in flags for part in ("--lora", flag)]
        assert restrike(*SEVEN, *flagged, "-o", f"{name}.png", "--native").code == 0
    pixels = {path.stem: pixels_of(path) for path in Path().glob("*.png")}
    assert pixels["none"] == pixels["base"]
    assert len(set(pixels.values())) == 3


def pixels_of(path: Path) -> bytes:
    from restrike.media import read

    return read(path).frames_THWC.tobytes()


def test_a_file_comes_back_when_its_loras_are_beside_it(restrike: Restrike, files: Path) -> None:
    flags = ("--lora", files / "a.safetensors:0.5", "--lora", f"transformer={files / 'b.safetensors'}")
    assert restrike(*SEVEN, *flags, "-o", "x.png").code == 0
    listed: Any = provenance_of(Path("x.png")).arguments["adapters"]  # pyright: ignore[reportOptionalMemberAccess]
    assert [(part["name"], part["strength"]) for part in listed] == [
        ("a.safetensors", 0.5),
        ("b.safetensors", 1.0),
    ]
    assert str(files) not in json.dumps(listed)
    outcome = restrike("generate", "--from", "x.png", "-o", "y.png")
    assert outcome.code == 2
    assert "LoRA 'a.safetensors'" in outcome.err
    assert "give it with --lora FILE" in outcome.err
    Path("a.safetensors").write_bytes((files / "a.safetensors").read_bytes())
    Path("b.safetensors").write_bytes((files / "a.safetensors").read_bytes())
    assert "the file of that name here is another one" in restrike("generate", "--from", "x.png").err
    Path("b.safetensors").write_bytes((files / "b.safetensors").read_bytes())
    outcome = restrike("generate", "--from", "x.png", "-o", "y.png")
    assert (outcome.code, outcome.err) == (0, "")
    assert Path("x.png").read_bytes() == Path("y.png").read_bytes()


def test_a_lora_that_is_given_takes_the_place_of_those_in_the_file(restrike: Restrike, files: Path) -> None:
    restrike(*SEVEN, "--lora", files / "a.safetensors", "-o", "x.png")
    assert restrike("generate", "--from", "x.png", "--lora", files / "b.safetensors", "-o", "y.png").code == 0
    assert restrike(*SEVEN, "--lora", files / "b.safetensors", "-o", "z.png").code == 0
    assert Path("y.png").read_bytes() == Path("z.png").read_bytes()


def test_inspect_and_json_tell_of_the_loras(restrike: Restrike, files: Path) -> None:
    made = restrike(*SEVEN, "--lora", files / "a.safetensors", "-o", "x.png", "--json").json
    assert made["arguments"]["adapters"][0]["name"] == "a.safetensors"
    assert "a.safetensors" in restrike("inspect", "x.png").out


def test_what_cannot_be_used_is_refused_at_once(restrike: Restrike, files: Path, tmp_path: Path) -> None:
    (tmp_path / "x.ckpt").write_bytes(b"no")
    outcome = restrike(*SEVEN, "--lora", "gone.safetensors:2", "--lora", "x.ckpt")
    assert outcome.code == 2
    assert "gone.safetensors" in outcome.err
    assert "is no .safetensors file" in outcome.err


@pytest.mark.parametrize(
    ("text", "adapter"),
    [
        ("a.safetensors", Adapter("a.safetensors")),
        ("a.safetensors:0.5", Adapter("a.safetensors", 0.5)),
        ("a.safetensors:-1", Adapter("a.safetensors", -1.0)),
        ("owner/name@v1:0.8", Adapter("owner/name@v1", 0.8)),
        (
            "transformer_2=a.safetensors:2",
            Adapter("a.safetensors", 2.0, component="transformer_2"),
        ),
        ("a:b.safetensors", Adapter("a:b.safetensors")),
    ],
)
def test_the_form_of_the_flag(text: str, adapter: Adapter) -> None:
    assert values.lora(text) == adapter


def test_a_file_whose_name_looks_like_the_form_is_that_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("odd=x.safetensors:2").touch()
    assert values.lora("odd=x.safetensors:2") == Adapter("odd=x.safetensors:2")
    with pytest.raises(Refused, match="is not FILE"):
        values.lora(":2")


GOOD = {"name": "a.safetensors", "digest": "0" * 64, "strength": 1}


@pytest.mark.parametrize(
    "listed",
    [
        "a.safetensors",
        [GOOD] * 17,
        ["a.safetensors"],
        [GOOD | {"name": "../a.safetensors"}],
        [GOOD | {"name": "/etc/passwd"}],
        [GOOD | {"digest": "0"}],
        [GOOD | {"strength": True}],
        [GOOD | {"strength": "1"}],
        [GOOD | {"component": 3}],
        [{"name": "a.safetensors"}],
    ],
)
def test_a_strangers_list_is_read_with_care(listed: Any) -> None:
    with pytest.raises(Refused, match=r"'x\.png'"):
        recorded_adapters("x.png", {"adapters": listed})
