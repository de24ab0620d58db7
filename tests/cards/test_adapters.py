"""Where an adapter's file is found, and what of it decides a result."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from restrike.cards import hub
from restrike.cards.adapters import Adapter
from restrike.cards.checkpoint import NotHere
from restrike.cards.identity import AdapterIdentity, adapted
from restrike.errors import NotFound, Refused

TENSORS = {"transformer.a.lora_A.weight": np.zeros((1, 2), np.float32)}


@pytest.fixture(autouse=True)
def _own_memo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    folder = tmp_path / "loras"
    folder.mkdir()
    save_file(TENSORS, folder / "style.safetensors")
    return folder / "style.safetensors"


def test_a_file_and_its_folder_are_the_same_adapter(file: Path) -> None:
    direct, by_folder = Adapter(file).settled(), Adapter(file.parent).settled()
    assert direct.identity == by_folder.identity
    assert direct.recorded() == by_folder.recorded()
    assert direct.name == "style.safetensors"


def test_a_folder_with_several_files_needs_a_name(file: Path) -> None:
    save_file(TENSORS, file.with_name("other.safetensors"))
    with pytest.raises(Refused, match="say which file, as weight_name"):
        Adapter(file.parent).settled()
    assert Adapter(file.parent, weight_name="other.safetensors").settled().name == "other.safetensors"


def test_name_and_place_decide_nothing_and_bytes_do(file: Path) -> None:
    before = Adapter(file, 0.5).settled().identity
    moved = file.rename(file.with_name("renamed.safetensors"))
    assert Adapter(moved, 0.5).settled().identity == before
    save_file({"transformer.a.lora_A.weight": np.ones((1, 2), np.float32)}, moved)
    assert Adapter(moved, 0.5).settled().identity != before


def test_an_adapter_of_the_hub_is_fetched_when_it_is_settled_and_not_before(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here: list[Path] = []

    def fetched(repository: str, revision: str | None, files: tuple[str, ...]) -> Path:
        here.append(file.parent)
        return file.parent

    monkeypatch.setattr(hub, "cached", lambda repository, revision: here[0] if here else None)
    monkeypatch.setattr(hub, "snapshot", fetched)
    adapter = Adapter("owner/name@v1", 0.5)
    with pytest.raises(NotHere, match="'owner/name@v1' is not on this machine yet"):
        adapter.present()
    settled = adapter.settled()
    assert settled.identity == Adapter(file, 0.5).settled().identity
    assert settled.recorded() == {
        "name": "style.safetensors",
        "digest": settled.digest,
        "strength": 0.5,
        "hub": "owner/name@v1",
    }
    assert adapter.present() == settled


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    for location in ("gone.safetensors", "./gone/x", "gone"):
        with pytest.raises(NotFound, match="gone"):
            Adapter(location).settled()
    with pytest.raises(Refused, match="was not looked at yet"):
        _ = Adapter("gone.safetensors").identity


def test_the_order_and_the_strengths_of_a_stack_are_in_its_identity() -> None:
    one, two = (AdapterIdentity(digest=digit * 64, strength=1.0) for digit in "12")
    half = AdapterIdentity(digest="1" * 64, strength=0.5)
    sent = AdapterIdentity(digest="1" * 64, strength=1.0, component="transformer_2")
    stacks = [(), (one,), (two,), (half,), (sent,), (one, two), (two, one), (one, one)]
    assert adapted("weights", ()) == "weights"
    assert len({adapted("weights", stack) for stack in stacks}) == len(stacks)
