"""The ancestry of a card: the cards that its weights were trained from, back to the first.

It reads recipes only; a parent that is not installed is named and not followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from restrike.cards import registry
from restrike.cards.card import ModelCard
from restrike.errors import Refused, Unknown


@dataclass(frozen=True, kw_only=True)
class Ancestor:
    """A card from which another was trained; `method` is how it was made, None when it is not installed."""

    name: str
    generation: int
    method: str | None


def lineage(card: ModelCard, lookup: Callable[[str], ModelCard] = registry.card) -> tuple[Ancestor, ...]:
    """All ancestors, each followed by its own; parents are of generation 1.

    Raises:
        Refused: a card is its own ancestor.
    """
    return tuple(_ancestors(card, lookup, (card.name,)))


def _ancestors(
    card: ModelCard, lookup: Callable[[str], ModelCard], descent: tuple[str, ...]
) -> Iterator[Ancestor]:
    for name in card.recipe.parents:
        if name in descent:
            raise Refused(f"card '{name}' is its own ancestor: {' from '.join((*descent, name))}")
        try:
            parent = lookup(name)
        except Unknown:
            yield Ancestor(name=name, generation=len(descent), method=None)
            continue
        yield Ancestor(name=name, generation=len(descent), method=parent.recipe.method)
        yield from _ancestors(parent, lookup, (*descent, name))
