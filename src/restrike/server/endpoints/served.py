"""What a server knows of an endpoint that it serves: its description, and where its code is. Loads none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from restrike.cards.card import ModelCard
from restrike.endpoints.builtin import endpoint_of
from restrike.endpoints.declaration import Slot
from restrike.endpoints.describing import described
from restrike.server.security.trust import barred_untrusted


@dataclass(frozen=True, kw_only=True)
class Lock:
    """A file's lock when the server started, `none`, `held`, `stale` or `torn`, and what it says."""

    state: str = "none"
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Served:
    """One endpoint. `described` is as `endpoints.describing` gives it.

    `place` and `source` are as in `Origin`, empty for a card, which has no code of its own.
    """

    name: str
    described: Mapping[str, Any]
    place: str = ""
    source: str = ""
    lock: Lock = Lock()

    @property
    def is_card(self) -> bool:
        """Whether it is a card, which fills its own slot."""
        return not self.place

    @property
    def handlers(self) -> tuple[str, ...]:
        """The names of its handlers."""
        return tuple(self.described["handlers"])

    def request_schema(self, handler: str) -> Mapping[str, Any]:
        """The JSON schema of a handler's payload."""
        return self.described["handlers"][handler]["request"]

    @property
    def slots(self) -> Mapping[str, Slot]:
        """Its slots by name."""
        return {
            name: Slot(tasks=tuple(slot["tasks"]), default=slot["default"])
            for name, slot in self.described["slots"].items()
        }


def looked_at(tree: Mapping[str, Any]) -> Served:
    """The endpoint that a looker tells of."""
    lock = Lock(state=tree["lock"]["state"], findings=tuple(tree["lock"]["findings"]))
    return Served(**{**tree, "lock": lock})


def of_card(card: ModelCard) -> Served:
    """A card as the endpoint that it is."""
    return Served(name=card.name, described=described(endpoint_of(card)))


def served_view(served: Served, filled: Mapping[str, str], empty: Sequence[str]) -> dict[str, Any]:
    """An endpoint as plain values; `filled` is what the server fills its slots with, `empty` are others."""
    slots = {
        name: {"tasks": list(slot.tasks), "model": _told(filled.get(name) or slot.default)}
        for name, slot in served.slots.items()
    }
    return {
        "name": served.name,
        **served.described,
        "kind": "card" if served.is_card else "endpoint",
        "slots": {} if served.is_card else slots,
        "empty_slots": list(empty),
        "lock": {"state": served.lock.state, "findings": list(served.lock.findings)},
    }


def _told(model: str) -> str | None:
    """What a slot holds; None when a call has to say it. No path of the server is told."""
    if not model:
        return None
    return model if barred_untrusted(model) is None else "a folder of the server"
