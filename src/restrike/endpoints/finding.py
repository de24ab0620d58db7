"""From a name to an endpoint with a card in each slot: of a file, installed, or a card itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from restrike.cards import registry
from restrike.endpoints.builtin import SLOT, endpoint_of
from restrike.endpoints.declaration import Endpoint
from restrike.endpoints.discovery import load
from restrike.endpoints.places import find_place
from restrike.endpoints.slots import Cards, fill
from restrike.errors import Refused


@dataclass(frozen=True, kw_only=True)
class Filled:
    """An endpoint that was loaded to run, and the card in each of its slots."""

    endpoint: Endpoint
    cards: Cards


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
