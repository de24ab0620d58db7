"""What a request passes before it begins: gates, each of which lets it in, makes it wait or refuses it.

A gate decides and counts; it never runs, delays or changes a request.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from restrike.cards.card import LoopSpec
from restrike.cards.request import Arguments

if TYPE_CHECKING:
    from restrike.engine.resident import ResidentCard

Leave = Callable[[], None]
"""Lets a request out of the gates that let it in."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A request that wants to begin."""

    resident: ResidentCard
    spec: LoopSpec
    arguments: Arguments


class Gate(Protocol):
    """Lets requests in and out; called by one thread at a time."""

    def enter(self, ask: Ask) -> Leave | None:
        """Let the request in and return what lets it out again; None while it must wait.

        What it returns is called exactly once, whether the request succeeds, fails or is cancelled.

        Raises:
            RestrikeError: it can never be let in.
        """
        ...

    def line(self, ask: Ask) -> Hashable:
        """Requests of one line do not overtake each other at this gate."""
        ...

    def waiting_for(self, ask: Ask) -> str:
        """What the request waits for, in one line for a person."""
        ...
