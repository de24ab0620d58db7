"""The gate at which requests wait for the weights that they need: one adapter stack and version at a time.

It asks each card's own leases and keeps nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from restrike.engine.scheduling.gates import Ask
from restrike.engine.weights.leases import stack_of


class WeightsGate:
    """A shared lease of a card's weights; a request with other adapters waits until the last one has left."""

    def enter(self, ask: Ask) -> Callable[[], None] | None:
        """A lease under the request's adapters, or None while the card is held otherwise."""
        return ask.resident.held.leases.share(stack_of(ask.arguments.adapters))

    def line(self, ask: Ask) -> Hashable:
        """A card's own: who waits for one card's weights is in nobody's way to another's."""
        return ask.resident

    def waiting_for(self, ask: Ask) -> str:
        """The requests, or the sync, that it waits for."""
        return ask.resident.held.leases.waiting_for()
