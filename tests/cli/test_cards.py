"""`restrike cards`: the list, and one card in full."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from cli.conftest import SEVEN, Restrike
from restrike.cards import registry
from restrike.cards.card import ModelCard, Recipe
from restrike.errors import Refused


@dataclass(frozen=True)
class Installed:
    """An entry point of a card that is made here."""

    card: ModelCard

    def load(self) -> ModelCard:
        return self.card


def test_the_list_tells_what_each_card_needs(restrike: Restrike) -> None:
    outcome = restrike("cards")
    assert (outcome.code, outcome.err) == (0, "")
    for expected in (
        "digits",
        "text-to-image; 8x8",
        "weights: here, ",
        "wan",
        "--card FOLDER",
        "Apache-2.0",
        "sides of multiples of 16 from 16 to 16384; 4k + 1 from 1 to 4093 frames",
    ):
        assert expected in " ".join(outcome.out.split())


def test_the_list_as_json(restrike: Restrike) -> None:
    cards = {card["name"]: card for card in restrike("cards", "--json").json["cards"]}
    assert list(cards) == list(registry.names())
    assert cards["digits"]["tasks"] == ["text-to-image"]
    assert cards["digits"]["example"] == "a seven"


def test_a_broken_card_costs_only_itself(restrike: Restrike, monkeypatch: pytest.MonkeyPatch) -> None:
    card = registry.card

    def broken(name: str) -> object:
        if name == "wan":
            raise Refused("card 'wan' has 1 fault(s): loops is empty")
        return card(name)

    monkeypatch.setattr(registry, "card", broken)
    outcome = restrike("cards")
    assert outcome.code == 0
    assert "cannot be used: card 'wan' has 1 fault(s): loops is empty" in outcome.out
    assert "8x8" in outcome.out


def test_a_card_in_full(restrike: Restrike) -> None:
    outcome = restrike("cards", "show", "digits")
    assert outcome.code == 0
    for expected in (
        "text_encoder",
        "euler, sde, unipc",
        "none, cfg, batched",
        "flow matching",
        "guidance_mode",
    ):
        assert expected in outcome.out


def test_the_weights_shown_are_those_that_files_carry(restrike: Restrike) -> None:
    shown = restrike("cards", "show", "digits", "--json").json
    made = restrike(*SEVEN, "--json").json
    assert shown["loops"][0]["weights"] == made["weights"]
    assert all(len(part["identity"]) == 64 for part in shown["components"])


def test_what_a_card_was_made_from_is_walked(restrike: Restrike, monkeypatch: pytest.MonkeyPatch) -> None:
    digits = registry.card("digits")

    def made_from(name: str, method: str, *parents: str) -> ModelCard:
        return replace(digits, name=name, recipe=Recipe(method=method, loop="denoise", parents=parents))

    cards = {"rl": made_from("rl", "flow-grpo", "base", "lost"), "base": made_from("base", "flow matching")}
    found = made_from("fast", "DMD", "rl")
    monkeypatch.setattr(registry, "find", lambda name: found)
    monkeypatch.setattr(
        registry, "_registered", lambda: {name: (Installed(card),) for name, card in cards.items()}
    )
    lines = [" ".join(line.split()) for line in restrike("cards", "show", "fast").out.splitlines()]
    expected = [
        "made from rl (flow-grpo)",
        "and that from base (flow matching)",
        "and that from lost (not installed)",
    ]
    assert [line for line in lines if line.endswith(")") and " from " in line] == expected


def test_a_card_without_weights_is_shown_too(restrike: Restrike) -> None:
    shown = restrike("cards", "show", "wan", "--json").json
    assert shown["weights"] == "yours, with --card FOLDER or --card HUB_ID"
    assert {part["identity"] for part in shown["components"]} == {None}
    assert "not here yet" in restrike("cards", "show", "wan").out


def test_no_line_ends_in_blanks(restrike: Restrike) -> None:
    for arguments in (("cards",), ("cards", "show", "digits")):
        assert all(line == line.rstrip() for line in restrike(*arguments).out.splitlines())
