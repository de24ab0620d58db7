from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from restrike.cards import registry
from restrike.cards.card import InvalidCard, ModelCard
from restrike.cards.checkpoint import Folder
from restrike.errors import NotFound, Refused, Unknown

from .samples import CARD, with_defaults

WAN = replace(CARD, name="wan", pipelines=("WanPipeline",))
FALLBACK = replace(CARD, name="pipeline", description="any pipeline")
INVALID = with_defaults(width=1)
NO_CARD = "text"


def points(**cards: str) -> list[EntryPoint]:
    return [
        EntryPoint(name=name, value=f"{__name__}:{attribute}", group=registry.GROUP)
        for name, attribute in cards.items()
    ]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """The entry points that are installed; a test may add to them before the first look."""
    present = points(sample="CARD", wan="WAN", pipeline="FALLBACK")
    registry._registered.cache_clear()
    monkeypatch.setattr(registry, "entry_points", lambda group: present)
    yield present
    registry._registered.cache_clear()


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "my-model"
    folder.mkdir()
    write_index(folder, _class_name="WanPipeline")
    return folder


def write_index(folder: Path, **index: Any) -> None:
    (folder / registry.INDEX).write_text(json.dumps(index))


@pytest.mark.usefixtures("installed")
def test_a_card_is_found_by_its_name() -> None:
    assert registry.names() == ("pipeline", "sample", "wan")
    assert registry.find("sample") is CARD


@pytest.mark.usefixtures("installed")
def test_a_name_wins_over_a_folder_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sample").mkdir()
    monkeypatch.chdir(tmp_path)
    assert registry.find("sample") is CARD


@pytest.mark.usefixtures("installed")
def test_a_folder_is_served_by_the_card_of_its_architecture(checkpoint: Path) -> None:
    assert registry.find(str(checkpoint)) == replace(WAN, location=Folder(checkpoint))


@pytest.mark.usefixtures("installed")
def test_a_folder_is_found_from_where_the_user_is(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkpoint.parent)
    monkeypatch.setenv("HOME", str(checkpoint.parent))
    for name in ("my-model", "./my-model", "~/my-model"):
        assert registry.find(name).location == Folder(checkpoint)


@pytest.mark.usefixtures("installed")
def test_an_architecture_without_its_own_card_is_run_as_a_pipeline(checkpoint: Path) -> None:
    write_index(checkpoint, _class_name="FluxPipeline")
    assert registry.find(str(checkpoint)).name == "pipeline"


@pytest.mark.usefixtures("installed")
def test_only_the_index_is_read_to_choose_the_card(checkpoint: Path) -> None:
    (checkpoint / "transformer").mkdir()
    (checkpoint / "transformer" / "weights.safetensors").write_bytes(b"torn")
    assert registry.find(str(checkpoint)).name == "wan"


@pytest.mark.usefixtures("installed")
def test_an_unknown_name_lists_what_exists_and_suggests() -> None:
    with pytest.raises(Unknown) as caught:
        registry.find("sampel")
    assert str(caught.value) == (
        "unknown card 'sampel', did you mean 'sample'? Known: pipeline, sample, wan. "
        "A checkpoint folder or a hub id (owner/name) works too."
    )


@pytest.mark.usefixtures("installed")
def test_a_misspelt_folder_and_a_file_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(NotFound, match=r"at './chekpoint'; did you mean './checkpoint'\?"):
        registry.find("./chekpoint")
    with pytest.raises(Refused, match=r"'model.safetensors' is a file; a checkpoint is a folder"):
        registry.find("model.safetensors")


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", ["./nowhere", "/no/such/folder", "~/no-such-folder", "a/b/c"])
def test_a_path_without_a_folder_is_told_as_such(name: str) -> None:
    with pytest.raises(NotFound, match=f"no checkpoint folder at '{name}'"):
        registry.find(name)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "checkpoint 'my-model' has no model_index.json"),
        ('{"_class_name": "Wan', "checkpoint 'my-model': model_index.json is not valid JSON"),
        ("[1]", "checkpoint 'my-model': model_index.json is not a JSON object"),
        ("{}", "names no pipeline class (_class_name)"),
    ],
)
def test_a_missing_or_torn_index_is_named(checkpoint: Path, text: str | None, words: str) -> None:
    index = checkpoint / registry.INDEX
    index.unlink() if text is None else index.write_text(text)
    with pytest.raises(Refused) as caught:
        registry.find(str(checkpoint))
    assert words in str(caught.value)


def test_one_name_from_two_packages_is_refused(installed: list[EntryPoint]) -> None:
    installed.append(EntryPoint(name="wan", value="foreign.cards:WAN", group=registry.GROUP))
    assert registry.find("sample") is CARD
    with pytest.raises(Refused) as caught:
        registry.find("wan")
    assert "two packages register a card 'wan'" in str(caught.value)
    assert "foreign.cards:WAN" in str(caught.value)


def test_the_same_registration_seen_twice_is_no_collision(installed: list[EntryPoint]) -> None:
    installed.extend(points(wan="WAN"))
    assert registry.find("wan") is WAN


def test_an_installed_card_that_contradicts_itself_is_refused(installed: list[EntryPoint]) -> None:
    installed.extend(points(broken="INVALID"))
    with pytest.raises(InvalidCard, match=r"defaults\.width 1"):
        registry.find("broken")


def test_an_entry_point_that_is_no_card_is_refused(installed: list[EntryPoint]) -> None:
    installed.extend(points(text="NO_CARD"))
    with pytest.raises(Refused, match=r"entry point 'text' of group restrike\.cards is a str"):
        registry.find("text")


@pytest.mark.parametrize("value", ["restrike.models.gone:CARD", f"{__name__}:GONE"])
def test_a_card_that_cannot_be_imported_is_named(installed: list[EntryPoint], value: str) -> None:
    installed.append(EntryPoint(name="gone", value=value, group=registry.GROUP))
    assert registry.find("sample") is CARD
    with pytest.raises(Refused, match=f"card 'gone' cannot be imported from {value}: "):
        registry.find("gone")


def test_a_hub_id_offline_says_that_it_is_not_cached(
    installed: list[EntryPoint], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(NotFound, match=r"'owner/model' is not in the hub's cache and the hub cannot be") as e:
        registry.find("owner/model")
    assert "\n" not in str(e.value)
    assert installed


def test_the_cards_of_this_package_are_valid() -> None:
    registry._registered.cache_clear()
    for name in registry.names():
        card = registry.card(name)
        assert isinstance(card, ModelCard)
        assert card.name == name


def test_a_card_whose_package_is_broken_keeps_no_other_from_being_found(
    installed: list[EntryPoint], checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    installed.insert(0, EntryPoint(name="a-broken", value="cards.broken_card:CARD", group=registry.GROUP))
    assert registry.find("sample") is CARD
    assert registry.find(str(checkpoint)).name == "wan"
    assert "card 'a-broken' cannot be imported" in caplog.text
    with pytest.raises(Refused, match=r"a-broken.*RuntimeError: no such device"):
        registry.find("a-broken")


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", ["", "~no-such-user"])
def test_a_name_that_is_no_path_is_unknown(name: str, checkpoint: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(checkpoint)
    with pytest.raises(Unknown):
        registry.find(name)
