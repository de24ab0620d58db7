"""From a name to an endpoint with a card in each slot: of a file, installed, or a card itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from restrike.cards import registry
from restrike.endpoints.builtin import SLOT, endpoint_of
from restrike.endpoints.declaration import Endpoint
from restrike.endpoints.discovery import load
from restrike.endpoints.places import find_place
from restrike.endpoints.slots import Cards, fill
from restrike.endpoints.warm import planned_card
from restrike.errors import Refused


@dataclass(frozen=True, kw_only=True)
class Filled:
    """An endpoint that was loaded to run, and the card in each of its slots."""

    endpoint: Endpoint
    cards: Cards

    def as_compiled(self) -> Filled:
        """The same, its compiled slot's card declaring what this endpoint makes of it; see `planned_card`."""
        card, slot = planned_card(self.endpoint, self.cards), self.endpoint.compiled_slot
        if card is None or slot is None or card.compile is None or not card.compile.shapes:
            return self
        return replace(self, cards={**self.cards, slot: card})


def find(name: str, slots: Mapping[str, str]) -> Filled:
    """The endpoint that `FILE.py[:NAME]`, a module, a registered name or a card's name means, slots filled.

    Raises:
        Unknown, NotFound: there is no such thing.
        UnfilledSlot, InvalidEndpoint, Refused: it cannot be served so.
        Crashed: its file fails on import.
    """
    place = find_place(name)
    if place is not None:
        endpoint = load(place).meant()
        return Filled(endpoint=endpoint, cards=fill(endpoint, slots))
    if slots:
        raise Refused(f"'{name}' is a card and fills its own slot; leave the slots out")
    card = registry.fitted(registry.find(name))
    return Filled(endpoint=endpoint_of(card), cards={SLOT: card})
