"""All endpoints of a server by name: those of the operator's command line, installed ones, and all cards.

It is made once, when the server starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from restrike.cards import registry
from restrike.endpoints.places import installed
from restrike.endpoints.slots import fill
from restrike.errors import Refused, RestrikeError, Unknown
from restrike.server.endpoints.looking import look
from restrike.server.endpoints.origin import Origin
from restrike.server.endpoints.served import Served, of_card

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,79}")


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """What is served. `slots` are the server's own models for slots of its endpoints, by their names."""

    looked: tuple[Served, ...] = ()
    slots: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def origins(self) -> tuple[Origin, ...]:
        """Where the code of those is that are no cards."""
        return tuple(
            Origin(name=each.name, place=each.place, source=each.source, slots=self.filled(each))
            for each in self.looked
        )

    def filled(self, served: Served) -> dict[str, str]:
        """What the server fills an endpoint's slots with."""
        return {name: model for name, model in self.slots.items() if name in served.slots}

    def empty(self, served: Served) -> tuple[str, ...]:
        """The slots of an endpoint that a call has to fill; a card fills its own."""
        if served.is_card:
            return ()
        filled = self.filled(served)
        return tuple(name for name, slot in served.slots.items() if not (filled.get(name) or slot.default))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What an operator may not have meant: endpoints that refuse each call that does not fill a slot."""
        return tuple(
            f"endpoint '{each.name}': slot '{name}' is empty, so a call that does not fill it is refused; "
            f"--slot {name}=CARD fills it for all"
            for each in self.looked
            for name in self.empty(each)
        )

    def all(self) -> Iterator[Served]:
        """Those of the operator, then the cards that have weights."""
        yield from self.looked
        yield from self._cards.values()

    def served(self, name: str) -> Served:
        """The endpoint of a name; raises Unknown, or Refused for a card that cannot be served by its name."""
        found = {each.name: each for each in self.all()}
        if name in found:
            return found[name]
        if name in registry.names():
            return _card(name)
        raise Unknown("endpoint", name, found)

    @cached_property
    def _cards(self) -> Mapping[str, Served]:
        """Those that can be served by their name alone; `served` says why another cannot."""
        found: dict[str, Served] = {}
        for name in registry.names():
            with suppress(RestrikeError):
                found[name] = _card(name)
        return found


def catalogue(places: Sequence[str], slots: Mapping[str, str]) -> Catalogue:
    """Look at what is to be served, and at all that is installed as an endpoint.

    Raises:
        NotFound, Refused, Crashed, Shortfall: one of them is broken, two have one name, or a slot cannot be
            filled so; it is named.
    """
    asked = tuple(dict.fromkeys((*places, *installed())))
    looked = {(each.name, each.place): each for each in look(asked)} if asked else {}
    found = Catalogue(looked=tuple(looked.values()), slots=dict(slots))
    _check_names(found.looked)
    for name in slots:
        if not any(name in each.slots for each in found.looked):
            known = {slot for each in found.looked for slot in each.slots}
            raise Unknown("slot", name, known, hint="--slot fills slots of what --endpoints names.")
    for each in found.looked:
        _check_filled(each, found.filled(each))
    return found


def _card(name: str) -> Served:
    card = registry.fitted(registry.card(name))
    if card.location is None:
        raise Refused(
            f"card '{name}' needs weights; submit a generation that names its checkpoint, or fill a slot"
        )
    return of_card(card)


def _check_names(looked: Sequence[Served]) -> None:
    cards, seen = registry.names(), dict[str, str]()
    for each in looked:
        if not _NAME.fullmatch(each.name):
            raise Refused(
                f"--endpoints {each.place}: '{each.name}' is no name to be served under: a letter or _, then "
                "letters, digits, '_', '.' and '-'"
            )
        if each.name in cards:
            raise Refused(f"--endpoints {each.place}: a card is called '{each.name}' too; rename it")
        if each.name in seen:
            raise Refused(
                f"--endpoints {each.place}: '{each.name}' is served from {seen[each.name]} too; rename one"
            )
        seen[each.name] = each.place


def _check_filled(served: Served, filled: Mapping[str, str]) -> None:
    """Hold what the server fills against the slots; a call may have to fill the others."""
    known = Served(
        name=served.name,
        described={**served.described, "slots": {name: served.described["slots"][name] for name in filled}},
    )
    try:
        fill(known, filled)
    except RestrikeError as error:
        raise Refused(f"--endpoints {served.place}: {error.message}") from error
