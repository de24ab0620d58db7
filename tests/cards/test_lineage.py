from __future__ import annotations

from dataclasses import replace

import pytest

from restrike.cards.card import ModelCard, Recipe
from restrike.cards.lineage import Ancestor, lineage
from restrike.errors import Refused, Unknown

from .samples import CARD


def card(name: str, method: str, *parents: str) -> ModelCard:
    return replace(CARD, name=name, recipe=Recipe(method=method, loop="denoise", parents=parents))


def lookup_in(*cards: ModelCard):
    known = {each.name: each for each in cards}

    def lookup(name: str) -> ModelCard:
        if name not in known:
            raise Unknown("card", name, known)
        return known[name]

    return lookup


BASE = card("base", "flow matching")
RL = card("rl", "flow-grpo", "base")
FAST = card("fast", "DMD", "rl")


def test_the_chain_is_walked_from_the_last_card_to_the_first() -> None:
    assert lineage(FAST, lookup_in(BASE, RL)) == (
        Ancestor(name="rl", generation=1, method="flow-grpo"),
        Ancestor(name="base", generation=2, method="flow matching"),
    )
    assert lineage(BASE, lookup_in()) == ()


def test_a_parent_that_is_not_installed_is_still_named() -> None:
    assert lineage(RL, lookup_in()) == (Ancestor(name="base", generation=1, method=None),)


def test_two_parents_are_both_walked() -> None:
    merged = card("merged", "merge", "rl", "style")
    names = [
        (each.name, each.generation) for each in lineage(merged, lookup_in(BASE, RL, card("style", "lora")))
    ]
    assert names == [("rl", 1), ("base", 2), ("style", 1)]


def test_a_card_that_is_its_own_ancestor_is_refused() -> None:
    looped = card("base", "flow matching", "fast")
    with pytest.raises(Refused, match="card 'fast' is its own ancestor: fast from rl from base from fast"):
        lineage(FAST, lookup_in(looped, RL))
