"""The card that a request may name. What is not trusted is refused the same whether or not it exists."""

from __future__ import annotations

from restrike.cards import registry
from restrike.cards.card import ModelCard
from restrike.errors import Refused, Unknown
from restrike.server.security.trust import barred_untrusted, looks_like_path


def card_named(name: str) -> ModelCard:
    """An installed card, or the one that serves a hub id; raises Unknown, NotFound or Refused."""
    barred = barred_untrusted(name)
    if barred is None:
        return registry.find(name)
    if looks_like_path(name):
        raise Refused(barred)
    raise Unknown("card", name, registry.names(), hint="A hub id (owner/name) works too.")
