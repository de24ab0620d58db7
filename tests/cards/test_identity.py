from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from restrike.cards.card import Component
from restrike.cards.checkpoint import Folder, HubRepository, NotHere
from restrike.cards.hub import lacking
from restrike.cards.identity import WeightIdentity, identity_of, weights_of
from restrike.errors import Refused

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


# A whole card.


def pipeline_folder(root: Path) -> Path:
    (root / "model_index.json").write_text(
        '{"_class_name": "X", "vae": ["diffusers", "A"], "off": [null, null]}'
    )
    return root


def test_the_weights_of_a_card_are_those_that_its_only_loop_reads() -> None:
    from restrike.cards import registry
    from restrike.cards.placement import Placement
    from restrike.engine.resident import ResidentCard

    card = registry.card("digits")
    resident = ResidentCard(card, Placement(device="cpu", dtype="float32"))
    assert weights_of(card) == resident.weights(card.loops[0])


def test_a_card_without_weights_is_refused() -> None:
    from restrike.cards import registry

    with pytest.raises(Refused, match="needs weights"):
        weights_of(registry.card("wan"))


def test_a_repository_that_is_not_here_is_not_fetched_for_its_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from restrike.cards import registry

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    card = replace(registry.card("pipeline"), location=HubRepository("owner/name"))
    with pytest.raises(NotHere, match="'owner/name' is not on this machine yet"):
        weights_of(card)
    assert HubRepository("owner/name").missing_bytes(("*",)) is None


def test_a_download_that_was_broken_off_is_not_taken_for_the_whole(root: Path) -> None:
    folder = pipeline_folder(root)
    assert not lacking(folder)
    (folder / "vae" / "x.safetensors.index.json").write_text('{"weight_map": {"w": "b.safetensors"}}')
    assert lacking(folder) == ("vae/b.safetensors",)
    (folder / "vae" / "x.safetensors.index.json").unlink()
    (folder / "vae" / "a.safetensors").unlink()
    assert lacking(folder) == ("vae",)
    (folder / "model_index.json").unlink()
    assert lacking(folder) == ("model_index.json",)
