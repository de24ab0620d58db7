from __future__ import annotations

from pathlib import Path

import pytest

from restrike.cards.checkpoint import Checkpoint, Folder, HubRepository, Packaged
from restrike.errors import NotFound, Refused


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    root = tmp_path / "model"
    (root / "vae").mkdir(parents=True)
    (root / "config.json").write_text('{"width": 8}')
    for name in ("vae/b.safetensors", "vae/a.safetensors", "vae/config.json"):
        (root / name).write_text("{}")
    (tmp_path / "secret.json").write_text("{}")
    return Folder(root).resolve(())


def test_configuration_is_read_as_a_mapping(checkpoint: Checkpoint) -> None:
    assert checkpoint.json("config.json") == {"width": 8}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"width": 8', "config.json is not valid JSON"),
        (b"", "config.json is not valid JSON"),
        (b"\xff\xfe", "config.json is not valid JSON"),
        (b"7", "config.json is not a JSON object"),
    ],
)
def test_a_torn_file_is_named(checkpoint: Checkpoint, content: bytes, words: str) -> None:
    (checkpoint.root / "config.json").write_bytes(content)
    with pytest.raises(Refused) as caught:
        checkpoint.json("config.json")
    assert "checkpoint 'model'" in str(caught.value)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(checkpoint: Checkpoint) -> None:
    with pytest.raises(NotFound, match=r"checkpoint 'model' has no unet/config\.json"):
        checkpoint.json("unet/config.json")


def test_files_are_sorted_and_told_once(checkpoint: Checkpoint) -> None:
    found = checkpoint.files(("vae/*", "vae/*.safetensors"))
    assert [path.name for path in found] == ["a.safetensors", "b.safetensors", "config.json"]
    assert checkpoint.has("vae/*.safetensors")
    assert not checkpoint.has("unet/*")


@pytest.mark.parametrize(
    "name", ["../secret.json", "vae/../../secret.json", "/etc/passwd", "..\\secret.json"]
)
def test_nothing_outside_the_folder_is_ever_read(checkpoint: Checkpoint, name: str) -> None:
    for look in (checkpoint.json, checkpoint.has, lambda pattern: checkpoint.files((pattern,))):
        with pytest.raises(Refused, match="points outside its checkpoint"):
            look(name)


def test_the_links_of_a_download_cache_are_followed(checkpoint: Checkpoint, tmp_path: Path) -> None:
    (tmp_path / "blob").write_text('{"linked": true}')
    (checkpoint.root / "linked.json").symlink_to(tmp_path / "blob")
    (checkpoint.root / "dangling.json").symlink_to(tmp_path / "gone")
    assert checkpoint.json("linked.json") == {"linked": True}
    names = [path.name for path in checkpoint.files(("*.json",))]
    assert names == ["config.json", "linked.json"]


def test_a_missing_folder_or_package_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no checkpoint folder at"):
        Folder(tmp_path / "gone").resolve(())
    with pytest.raises(NotFound, match=r"package 'restrike\.cards' ships no folder 'weights'"):
        Packaged("restrike.cards").resolve(())
    with pytest.raises(NotFound, match=r"package 'no_such_package' is not installed"):
        Packaged("no_such_package").resolve(())


def test_a_folder_keeps_a_name_however_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Folder(Path()).resolve(()).name == tmp_path.name


def test_locations_read_as_a_person_gave_them(tmp_path: Path) -> None:
    assert str(Folder(tmp_path)) == str(tmp_path)
    assert str(HubRepository("owner/model")) == "owner/model"
    assert str(HubRepository("owner/model", "main")) == "owner/model@main"
