"""Where a sampling value comes from: the request, else the checkpoint, else the card, else what is usual."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from restrike.cards import registry
from restrike.cards.card import Fitting, ModelCard, SamplingDefaults
from restrike.cards.checkpoint import Checkpoint, Folder
from restrike.cards.request import Request, resolve

from .samples import CARD, with_defaults

USUAL = {
    "frames": 1,
    "fps": 8.0,
    "guidance": 1.0,
    "guidance_mode": "none",
    "solver": "euler",
    "shift": 1.0,
    "negative_prompt": "",
}
"""What a card that says nothing has; the sample card says something else of each."""


def settled(card: ModelCard, **asked: Any) -> dict[str, Any]:
    arguments = resolve(card, Request(prompt="a cat", **asked))[1]
    return {name: getattr(arguments, name) for name in USUAL}


def silent() -> ModelCard:
    """The sample card, with nothing said but what must be."""
    return replace(CARD, defaults=SamplingDefaults(width=64, height=32, steps=20))


def test_a_card_that_says_nothing_has_what_is_usual() -> None:
    assert settled(silent()) == USUAL


def test_a_card_comes_before_what_is_usual() -> None:
    found = settled(CARD)
    assert found == {name: getattr(CARD.defaults, name) for name in USUAL}
    assert all(found[name] != USUAL[name] for name in USUAL)


def fitted(card: ModelCard, folder: Path, **values: Any) -> ModelCard:
    """The card, fitted to a checkpoint whose configuration says these values."""

    def fit(card: ModelCard, checkpoint: Checkpoint) -> ModelCard:
        return with_defaults(card, **checkpoint.json("config.json"))

    (folder / registry.INDEX).write_text("{}")
    (folder / "config.json").write_text(str(values).replace("'", '"'))
    located = replace(card, location=Folder(folder), fitting=Fitting(files=("config.json",), fit=fit))
    return registry.fitted(located)


def test_a_checkpoint_comes_before_the_card(tmp_path: Path) -> None:
    found = settled(fitted(CARD, tmp_path, shift=5.0, fps=24.0))
    assert found == settled(CARD) | {"shift": 5.0, "fps": 24.0}


@pytest.mark.parametrize("name", ["frames", "fps", "shift", "solver", "guidance", "negative_prompt"])
def test_a_request_comes_before_all_even_when_it_asks_for_what_is_usual(tmp_path: Path, name: str) -> None:
    card = fitted(CARD, tmp_path, shift=5.0, fps=24.0)
    asked = {name: USUAL[name]}
    assert settled(card, **asked) == settled(card) | asked


def test_every_sampling_value_has_its_level_tested() -> None:
    required = {"width", "height", "steps"}
    assert {part.name for part in fields(SamplingDefaults)} == required | USUAL.keys()
