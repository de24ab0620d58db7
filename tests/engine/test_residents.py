"""What an engine keeps of a card: its own components, and the identity of the bytes they were made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from restrike.cards.card import Component, ModelCard
from restrike.cards.checkpoint import Checkpoint, Folder, Packaged
from restrike.cards.placement import Placement
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.errors import Refused
from restrike.models.digits.card import CARD

SEVEN = Request(prompt="a seven", seed=1, steps=2)
DECODER = "decoder.safetensors"


@pytest.fixture
def card(tmp_path: Path) -> ModelCard:
    """The digits card on a copy of its weights that may be edited."""
    for file in Packaged("restrike.models.digits").resolve(()).root.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return replace(CARD, location=Folder(tmp_path))


def edit(root: Path) -> None:
    weights = bytearray((root / DECODER).read_bytes())
    weights[-1] ^= 1
    (root / DECODER).write_bytes(weights)


def with_decoder(card: ModelCard, act: Callable[[Checkpoint], None]) -> ModelCard:
    """The card with a decoder whose loading ends with `act`."""

    def hooked(part: Component) -> Component:
        def load(checkpoint: Checkpoint, placement: Placement) -> Any:
            made = part.load(checkpoint, placement)
            act(checkpoint)
            return made

        return replace(part, load=load) if part.name == "decoder" else part

    return replace(card, components=tuple(map(hooked, card.components)))


def test_another_card_of_the_same_name_and_place_is_not_taken_for_the_first(card: ModelCard) -> None:
    engine = Engine(device="cpu")
    engine.generate(card, SEVEN)
    longer = replace(card, defaults=replace(card.defaults, steps=3))
    made = engine.generate(longer, Request(prompt="a seven", seed=1))
    assert made.arguments.steps == 3
    assert engine.load(card) is engine.load(replace(card))


def test_provenance_names_the_bytes_that_were_loaded_not_those_of_later(card: ModelCard) -> None:
    assert isinstance(card.location, Folder)
    root = card.location.path
    engine = Engine(device="cpu")
    as_loaded = Engine(device="cpu").load(card).weights(CARD.loops[0])
    for name in ("text_encoder", "transformer", "decoder"):
        engine.load(card).component(name)
    edit(root)
    assert engine.generate(card, SEVEN).picture.provenance.weights == as_loaded
    assert Engine(device="cpu").generate(card, SEVEN).picture.provenance.weights != as_loaded


def test_files_that_change_while_they_are_loaded_are_refused(card: ModelCard) -> None:
    torn = with_decoder(card, lambda checkpoint: edit(checkpoint.root))
    with pytest.raises(Refused, match="component 'decoder' changed while it was loaded"):
        Engine(device="cpu").generate(torn, SEVEN)
    still = with_decoder(card, lambda checkpoint: None)
    assert Engine(device="cpu").generate(still, SEVEN).pictures
