"""Makes pictures with the cards that carry their weights, and looks whether they keep their bytes."""

from __future__ import annotations

import time
from dataclasses import dataclass

from restrike.cards import registry
from restrike.cards.card import ModelCard
from restrike.cards.request import Request
from restrike.engine.builtin import NonFinite
from restrike.engine.engine import Engine
from restrike.engine.gate import contents, interleave_gate
from restrike.errors import RestrikeError, typed

_QUICK_STEPS = 4
"""Enough steps to meet every branch of a solver; what is checked is sameness, not beauty."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """What came of a card: `faults` is empty when all is well; `seconds` is one warm generation.

    `resident_bytes` is what its components hold on the device.
    """

    card: str
    faults: tuple[str, ...]
    seconds: float | None
    resident_bytes: int | None


def check_all() -> tuple[Check, ...]:
    """Check each installed card that has weights and an example prompt."""
    return tuple(_checked(card) for name in registry.names() if (card := _checkable(name)))


def _checkable(name: str) -> ModelCard | None:
    try:
        card = registry.card(name)
    except (RestrikeError, ImportError):
        return None  # It is listed as broken by `abilities`.
    return card if card.location is not None and card.example else None


def _checked(card: ModelCard) -> Check:
    try:
        return _check(card)
    except Exception as error:
        return Check(card=card.name, faults=(typed(error).message,), seconds=None, resident_bytes=None)


def _check(card: ModelCard) -> Check:
    engine = Engine(extensions=(NonFinite(),))
    steps = max(card.recipe.steps[0], min(card.defaults.steps, _QUICK_STEPS))
    requests = [Request(prompt=card.example, seed=seed, steps=steps) for seed in (1, 2)]
    first = engine.generate(card, requests[0])
    began = time.perf_counter()
    again = engine.generate(card, requests[0])
    seconds = time.perf_counter() - began
    faults = [*first.notices]
    if contents(first) != contents(again):
        faults.append("the same request gave other bytes the second time")
    report = interleave_gate(engine, card, requests)
    faults.extend(f"changed by a request beside it: {changed}" for changed in report.changed)
    resident_bytes = sum(each.resident_bytes for each in engine.memory())
    return Check(card=card.name, faults=tuple(faults), seconds=seconds, resident_bytes=resident_bytes)
