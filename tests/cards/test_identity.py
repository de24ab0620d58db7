from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from restrike.cards.card import Component
from restrike.cards.checkpoint import Folder
from restrike.cards.identity import WeightIdentity, identity_of

from .samples import nothing

VAE = Component(name="vae", load=nothing, files=("vae/*.safetensors", "vae/config.json"))


@pytest.fixture(autouse=True)
def _own_memo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "model" / "vae"
    folder.mkdir(parents=True)
    (folder / "a.safetensors").write_bytes(bytes(range(256)))
    (folder / "config.json").write_text("{}")
    (folder / "notes.md").write_text("decides nothing")
    return folder.parent


def identity(root: Path, component: Component = VAE) -> WeightIdentity:
    return identity_of(component, Folder(root).resolve(()))


def test_moving_or_renaming_the_folder_changes_nothing(root: Path, tmp_path: Path) -> None:
    before = identity(root)
    assert identity(Path(shutil.copytree(root, tmp_path / "elsewhere" / "renamed"))) == before
    assert identity(root.rename(tmp_path / "moved")) == before


def test_a_file_that_decides_nothing_changes_nothing(root: Path) -> None:
    before = identity(root)
    (root / "vae" / "notes.md").write_text("edited")
    assert identity(root) == before


@pytest.mark.parametrize("at", [0, 127, 255])
def test_one_edited_byte_changes_it(root: Path, at: int) -> None:
    before = identity(root)
    file = root / "vae" / "a.safetensors"
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)
    assert identity(root) != before


def test_configuration_renamed_and_added_files_change_it(root: Path) -> None:
    seen = {identity(root)}
    (root / "vae" / "config.json").write_text("{ }")
    seen.add(identity(root))
    (root / "vae" / "a.safetensors").rename(root / "vae" / "b.safetensors")
    seen.add(identity(root))
    (root / "vae" / "c.safetensors").write_bytes(b"")
    seen.add(identity(root))
    assert len(seen) == 4


def test_the_name_of_the_component_is_told_and_is_no_content(root: Path) -> None:
    other = identity(root, Component(name="decoder", load=nothing, files=VAE.files))
    assert other.component == "decoder"
    assert other.base == identity(root).base
