"""A call of an endpoint as work for the queue: what it takes, held against what the endpoint says of itself.

It imports no code of an endpoint and loads no weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from restrike.cards import registry
from restrike.cards.card import ModelCard
from restrike.endpoints.serving import handler_named
from restrike.endpoints.slots import Cards, fill
from restrike.errors import Refused
from restrike.server.endpoints.catalogue import Catalogue
from restrike.server.endpoints.pictures import pictures_of
from restrike.server.endpoints.schema import check_payload
from restrike.server.endpoints.served import Served
from restrike.server.security.trust import barred_trusted, barred_untrusted
from restrike.server.service import Service


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call that can be served: its body as the queue keeps it, what people know it by, and its cards."""

    body: Mapping[str, Any]
    label: str
    cards: tuple[ModelCard, ...]


def call_of(service: Service, body: Mapping[str, Any], workspace: str, *, trusted: bool) -> Call:
    """The call that a body means.

    Raises:
        Unknown: there is no such endpoint, handler, slot or card.
        InvalidPayload: the payload does not fit, with each field that does not.
        Refused: a slot has no model, or one that the request may not name.
    """
    served = service.catalogue.served(body["endpoint"])
    handler = handler_named(served.name, served.handlers, body.get("handler"))
    cards = _cards(service.catalogue, served, body.get("slots") or {}, trusted=trusted)
    pictures = pictures_of(service.workspace(workspace))
    check_payload(served.request_schema(handler), body.get("payload") or {}, pictures)
    label = served.name if len(served.handlers) == 1 else f"{served.name}.{handler}"
    return Call(body={**body, "handler": handler}, label=label, cards=tuple(cards.values()))


def _cards(catalogue: Catalogue, served: Served, given: Mapping[str, str], *, trusted: bool) -> Cards:
    if served.is_card:
        if given:
            raise Refused(f"'{served.name}' is a card and fills its own slot; leave the slots out")
        return {served.name: registry.fitted(registry.card(served.name))}
    barred = barred_trusted if trusted else barred_untrusted
    for name, model in given.items():
        why = barred(model)
        if why:
            raise Refused(f"slots.{name}: {why}")
    filled = {**catalogue.filled(served), **given}
    for name, slot in served.slots.items():
        if not filled.get(name) and not slot.default:
            raise Refused(
                f"slot '{name}' of endpoint '{served.name}' has no model; name a card or a hub id for it in "
                f"`slots`, or start the server with --slot {name}=CARD"
            )
    return fill(served, filled)
