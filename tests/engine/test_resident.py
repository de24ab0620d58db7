"""A loaded card: its components and identities are found once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from restrike.cards.checkpoint import Checkpoint, Folder, Packaged
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.errors import Refused
from restrike.models.digits.card import CARD


@dataclass(frozen=True)
class Counted:
    """The shipped weights, counting how often they are looked for."""

    asked: Counter[tuple[str, ...]] = field(default_factory=Counter, hash=False, compare=False)

    def resolve(self, files: tuple[str, ...]) -> Checkpoint:
        self.asked[files] += 1
        return Packaged("restrike.models.digits").resolve(files)

    present = resolve


def test_later_pictures_look_for_nothing() -> None:
    location = Counted()
    engine, card = Engine(device="cpu"), replace(CARD, location=location)
    first = engine.generate(card, Request(prompt="a 1", seed=1))
    asked = location.asked.copy()
    second = engine.generate(card, Request(prompt="a 2", seed=2, items=(0, 1, 2)))
    assert location.asked == asked
    assert second.pictures[2].provenance.weights == first.picture.provenance.weights


def test_the_identity_of_weights_is_that_of_their_bytes(tmp_path: Path) -> None:
    engine = Engine(device="cpu")
    shipped = engine.load("digits")
    assert shipped.weights(CARD.loops[0]) == Engine(device="cpu").load("digits").weights(CARD.loops[0])
    source = Packaged("restrike.models.digits").resolve(()).root
    moved, edited = tmp_path / "moved", tmp_path / "edited"
    for folder in (moved, edited):
        folder.mkdir()
        for file in source.iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
    weights = bytearray((edited / "decoder.safetensors").read_bytes())
    weights[-1] ^= 1
    (edited / "decoder.safetensors").write_bytes(weights)

    def identity(folder: Path) -> str:
        return Engine(device="cpu").load(replace(CARD, location=Folder(folder))).weights(CARD.loops[0])

    assert identity(moved) == shipped.weights(CARD.loops[0]) != identity(edited)


def test_a_card_is_loaded_once(engine: Engine) -> None:
    resident = engine.load("digits")
    assert engine.load("digits") is engine.load(CARD) is resident
    assert resident.component("transformer") is resident.component("transformer")


def test_a_card_without_weights_says_what_to_give() -> None:
    with pytest.raises(Refused, match="card 'digits' needs weights: give a checkpoint folder or a hub id"):
        Engine(device="cpu").load(replace(CARD, location=None))
