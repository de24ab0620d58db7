"""The warm plan of a card, which is that of the endpoint it is; first needed first. Imports no torch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from restrike.cards.card import ModelCard
from restrike.cards.compile import ShapeClass, shape_faults
from restrike.endpoints.builtin import SLOT, endpoint_of
from restrike.endpoints.warm import WarmRow, warm_rows
from restrike.errors import Refused, Unknown
from restrike.mint.refusals import EmptyPlan, Subject

_SIZE = re.compile(r"(\d{1,5})x(\d{1,5})(?:x(\d{1,5}))?(?:-([a-z]+))?")


def warm_plan(card: ModelCard, subject: Subject, wanted: tuple[str, ...] = ()) -> tuple[WarmRow, ...]:
    """The rows of the card's plan, first needed first; those wanted by name or size, all by default.

    Raises:
        EmptyPlan: there is none.
        Unknown: the card declares no shape class of a wanted name.
        Refused: the card does not make pictures of a wanted size.
    """
    declared = card.compile
    if declared is None or not declared.shapes:
        raise EmptyPlan(subject)
    shapes = {shape.name: shape for shape in declared.shapes}
    chosen = tuple(shapes.get(name) or _size(card, name, shapes) for name in wanted or shapes)
    meant = replace(card, compile=replace(declared, shapes=chosen))
    return warm_rows(endpoint_of(meant), {SLOT: meant})


def _size(card: ModelCard, name: str, declared: Mapping[str, ShapeClass]) -> ShapeClass:
    """The shape class that a size names: the first that is declared, at that size and guidance."""
    match = _SIZE.fullmatch(name)
    if match is None:
        hint = "A size works too: WxH, WxHxFRAMES, WxHxFRAMES-GUIDANCE."
        raise Unknown("shape class", name, declared, hint=hint)
    width, height, frames, guidance = match.groups()
    first = next(iter(declared.values()))
    shape = replace(
        first,
        width=int(width),
        height=int(height),
        frames=int(frames or 1),
        guidance=guidance or first.guidance,
        batch=1,
    )
    faults = "; ".join(shape_faults(card, shape))
    if faults:
        raise Refused(f"shape class '{name}': {faults}")
    return shape
