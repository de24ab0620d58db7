"""A signpost stands for exactly one call: all that decides its graph is in its key, and nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from restrike.cards import registry
from restrike.cards.card import ModelCard
from restrike.cards.checkpoint import Folder
from restrike.cards.compile import ShapeClass
from restrike.engine.engine import Engine
from restrike.engine.resident import ResidentCard
from restrike.keys import Digest, Key
from restrike.mint.adoption import adoption, signposts
from restrike.mint.adoption.signposts import Signposts, call_key, sizes_key
from restrike.mint.adoption.tried import Tried
from restrike.mint.cell.host import cpu_target, this_host
from restrike.mint.recipes.options import options_of
from restrike.mint.refusals import Subject
from restrike.mint.store.store import CellStore

from . import forging
from .conftest import SEVEN
from .forging import forged, key_in, twin

Adopting = Callable[..., Engine]
CPU = cpu_target()
STACK = this_host(CPU).stack("aot")
SHAPE = ShapeClass(width=8, height=8, guidance="none", text_tokens=3)


@dataclass(frozen=True)
class Loaded:
    """What a signpost reads of a resident card."""

    card: ModelCard
    placement: Any
    checkpoint: Any


@pytest.fixture(scope="module")
def loaded() -> Loaded:
    resident = Engine(device="cpu").load("digits")
    return Loaded(resident.card, resident.placement, resident.checkpoint)


def sign(loaded: Any, **changes: Any) -> Key | None:
    asked = {"component": "transformer", "shape": SHAPE, "stack": STACK, "target": CPU, "options": {"a": 1}}
    return call_key(loaded, **{**asked, **changes})


@pytest.mark.parametrize(
    "change",
    [
        {"component": "decoder"},
        {"shape": replace(SHAPE, width=16)},
        {"shape": replace(SHAPE, batch=2)},
        {"stack": replace(STACK, torch="0")},
        {"target": replace(CPU, order=9)},
        {"options": {"a": 2}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_is_asked_of_a_call_is_in_its_signpost(loaded: Loaded, change: dict[str, Any]) -> None:
    assert sign(loaded) == sign(loaded) != sign(loaded, **change)


@pytest.mark.parametrize(
    "change",
    [
        {"architecture": "another"},
        {"example": "another prompt"},
        {"libraries": ("numpy",)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_decides_the_graph_of_a_card_is_in_its_signposts(loaded: Loaded, change: dict[str, Any]) -> None:
    other = replace(loaded, card=replace(loaded.card, **change))
    assert sign(other) != sign(loaded)
    assert sizes_key(other, CPU) != sizes_key(loaded, CPU)  # pyright: ignore[reportArgumentType]
    # The control: its name decides nothing.
    assert sign(replace(loaded, card=replace(loaded.card, name="another"))) == sign(loaded)


def test_precision_and_sampling_and_code_are_in_it(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sign(loaded)
    assert sign(replace(loaded, placement=replace(loaded.placement, dtype="bfloat16"))) != before
    defaults = replace(loaded.card.defaults, steps=loaded.card.defaults.steps + 1)
    assert sign(replace(loaded, card=replace(loaded.card, defaults=defaults))) != before
    monkeypatch.setattr(signposts, "_folder_of", lambda module: f"other code of {module}")
    assert sign(loaded) != before


def test_code_that_cannot_be_known_has_no_signpost(loaded: Loaded) -> None:
    first, *rest = loaded.card.components
    unknown = replace(first, load=lambda *given: None)
    assert sign(replace(loaded, card=replace(loaded.card, components=(unknown, *rest)))) is None


def test_the_configuration_of_a_checkpoint_is_in_it_and_its_weights_and_place_are_not(
    tmp_path: Path,
) -> None:
    digits = registry.find("digits")
    assert digits.location is not None
    source = digits.location.resolve(("*",)).root

    def loaded_from(name: str, change: Callable[[Path], None]) -> ResidentCard:
        folder = Path(shutil.copytree(source, tmp_path / name))
        change(folder)
        return Engine(device="cpu").load(replace(digits, location=Folder(folder)))

    def configured(folder: Path) -> None:
        config = folder / "config.json"
        config.write_text(config.read_text() + "\n")

    def retrained(folder: Path) -> None:
        with (folder / "transformer.safetensors").open("r+b") as file:
            file.seek(-8, 2)
            file.write(b"\0" * 8)

    plain = sign(Engine(device="cpu").load("digits"))
    assert sign(loaded_from("weights", retrained)) == plain
    assert sign(loaded_from("configuration", configured)) != plain


def test_a_signpost_of_another_call_under_this_ones_name_leads_nowhere(tmp_path: Path) -> None:
    signs = Signposts(tmp_path)
    ours, theirs, cell = Key("a", "1", {"x": 1}), Key("a", "1", {"x": 2}), Digest("1" * 64)
    signs.write(ours, [cell])
    assert signs.read(ours) == (cell,)
    shutil.copy(signs._path(ours), signs._path(theirs))
    assert signs.read(theirs) is None
    signs.remove(ours)
    assert signs.read(ours) is None


def test_sizes_that_were_minted_for_another_target_are_not_looked_for(loaded: Loaded) -> None:
    other = replace(CPU, order=9)
    assert sizes_key(loaded, CPU) != sizes_key(loaded, other)  # pyright: ignore[reportArgumentType]


def test_a_signpost_to_a_call_of_another_form_is_taken_down(
    kept: CellStore, adopting: Adopting, tmp_path: Path
) -> None:
    store = twin(kept, tmp_path / "moved")
    resident = Engine(device="cpu").load("digits")
    declared = resident.card.compile
    assert declared is not None
    options = options_of("aot", CPU, declared.options, Subject(card="digits", recipe="aot"))
    other = next(shape for shape in declared.shapes if shape.guidance == "none")
    wrong = sign(resident, shape=other, options=options)
    Signposts(store.root).write(wrong, [key_in(kept)])
    table = adopting(store).load("digits").compiled
    assert (table.counters.armed, table.counters.refused) == (1, {"other ingress": 1})
    assert Signposts(store.root).read(wrong) is None


def test_a_good_cell_to_which_a_signpost_led_by_mistake_stays(
    kept: CellStore, adopting: Adopting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of another graph, which computes something else with the same tensors and weights.
    other = forged(
        kept,
        tmp_path / "other",
        code=forging.other_literal,
        facts=lambda facts: replace(facts, graph="5" * 64),
    )
    key = key_in(other)
    assert key != key_in(kept)
    monkeypatch.setattr(Tried, "has", lambda record, header: True)
    monkeypatch.setattr(Signposts, "read", lambda signs, sign: (key,) if sign in batched else ())
    resident = Engine(device="cpu").load("digits")
    declared = resident.card.compile
    assert declared is not None
    options = options_of("aot", CPU, declared.options, Subject(card="digits", recipe="aot"))
    first = next(shape for shape in declared.shapes if shape.guidance == "batched")
    batched = [sign(resident, shape=first, options=options)]
    engine = adopting(other)
    assert engine.load("digits").compiled.counters.refused == {"cell of another call": 1}
    assert other.has(key)
    assert engine.generate("digits", SEVEN).compiled.executed == 0
    # The control: without asking whose it is, it would be at fault.
    monkeypatch.setattr(adoption.Adoption, "_led_astray", lambda *given: None)
    assert adopting(other).load("digits").compiled.counters.refused == {"out of tolerance": 1}
    assert not other.has(key)
