"""What an engine keeps of a card: its own components, and the identity of the bytes they were made of."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from restrike.cards.card import Component, ModelCard
from restrike.cards.checkpoint import Checkpoint, Folder, Packaged
from restrike.cards.placement import Placement
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.engine.gate import contents
from restrike.errors import Refused, Shortfall
from restrike.loops.denoise import DenoiseState
from restrike.models.digits.card import CARD

from .driving import watched

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


def test_weights_that_are_edited_in_place_later_change_no_picture(card: ModelCard) -> None:
    assert isinstance(card.location, Folder)
    file = card.location.path / DECODER
    # As they are used: a change of precision would copy them.
    save_file({name: tensor.float() for name, tensor in load_file(file).items()}, file)
    engine = Engine(device="cpu", precision="float32")
    made = contents(engine.generate(card, SEVEN))
    with file.open("r+b") as edited:
        edited.seek(8 + int.from_bytes(edited.read(8), "little"))
        edited.write(b"\x3f" * 64)
    assert contents(engine.generate(card, SEVEN)) == made
    assert contents(Engine(device="cpu", precision="float32").generate(card, SEVEN)) != made


class Scratch(torch.nn.Module):
    """A decoder that keeps scratch on itself while it runs, as Wan's autoencoder does."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner, self.mean_HW, self.level = inner, inner.mean_HW, 0

    def forward(self, latent: torch.Tensor) -> torch.Tensor:
        self.level = 0
        for _ in range(20):
            self.level += 1
            time.sleep(0.0005)
        return self.inner(latent) * (self.level / 20)


def scratching(card: ModelCard) -> ModelCard:
    """The card with a decoder that two threads must not run at once."""

    def load(part: Component) -> Callable[[Checkpoint, Placement], Any]:
        return lambda checkpoint, placement: Scratch(part.load(checkpoint, placement))

    return replace(
        card,
        components=tuple(
            replace(part, load=load(part)) if part.name == "decoder" else part for part in card.components
        ),
    )


def test_two_threads_on_one_card_take_turns(card: ModelCard) -> None:
    engine, scratched = Engine(device="cpu"), scratching(card)
    requests = [replace(SEVEN, seed=seed) for seed in (1, 2)] * 6
    alone = [contents(engine.generate(scratched, request)) for request in requests]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda request: contents(engine.generate(scratched, request)), requests))
    assert together == alone


class Unlocked(nullcontext[None]):
    """A lock that everyone has."""

    def acquire(self) -> None: ...

    def release(self) -> None: ...


def test_the_turns_are_needed(card: ModelCard, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, scratched = Engine(device="cpu"), scratching(card)
    monkeypatch.setattr(engine.load(scratched).residency.turn, "lock", Unlocked())
    requests = [replace(SEVEN, seed=seed) for seed in (1, 2)] * 6
    alone = [contents(engine.generate(scratched, request)) for request in requests]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda request: contents(engine.generate(scratched, request)), requests))
    assert together != alone


def test_main_memory_that_runs_out_is_a_shortfall() -> None:
    def fill(state: DenoiseState) -> None:
        torch.empty(2**55)

    with pytest.raises(Shortfall, match="out of memory"):
        Engine(device="cpu").generate(watched(Counter(), fill), SEVEN)
