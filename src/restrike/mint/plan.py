"""The warm plan: the card's own requests, one a shape class, first needed first. Imports no torch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from restrike.cards.card import ModelCard
from restrike.cards.compile import ShapeClass, shape_faults
from restrike.cards.request import Request
from restrike.errors import Refused, Unknown
from restrike.mint.refusals import EmptyPlan, Subject

# Enough for every expert of a checkpoint to get a step.
_STEPS = 4
_SIZE = re.compile(r"(\d{1,5})x(\d{1,5})(?:x(\d{1,5}))?(?:-([a-z]+))?")


@dataclass(frozen=True, kw_only=True)
class WarmRow:
    """One row of the plan: a shape class and the request that shows it."""

    shape: ShapeClass
    request: Request


def warm_plan(card: ModelCard, subject: Subject, wanted: tuple[str, ...] = ()) -> tuple[WarmRow, ...]:
    """The rows of the card's plan, first needed first; those wanted by name or size, all by default.

    Raises:
        EmptyPlan: there is none.
        Unknown: the card declares no shape class of a wanted name.
        Refused: the card does not make pictures of a wanted size.
    """
    shapes = {shape.name: shape for shape in card.compile.shapes} if card.compile else {}
    if not shapes:
        raise EmptyPlan(subject)
    chosen = [shapes.get(name) or _size(card, name, shapes) for name in wanted or shapes]
    return tuple(WarmRow(shape=shape, request=_request(card, shape)) for shape in chosen)


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


def _request(card: ModelCard, shape: ShapeClass) -> Request:
    least, most = card.recipe.steps
    grey = np.full((shape.height, shape.width, 3), 128, np.uint8) if shape.from_image else None
    return Request(
        prompt=card.example or card.description,
        seed=0,
        steps=max(least, min(most, _STEPS)),
        guidance_mode=shape.guidance,
        width=shape.width,
        height=shape.height,
        frames=shape.frames,
        image=grey,
    )
