"""The warm plan: the card's own requests, one a shape class, first needed first. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from restrike.cards.card import ModelCard
from restrike.cards.compile import ShapeClass
from restrike.cards.request import Request
from restrike.errors import Unknown
from restrike.mint.refusals import EmptyPlan, Subject

# Enough for every expert of a checkpoint to get a step.
_STEPS = 4


@dataclass(frozen=True, kw_only=True)
class WarmRow:
    """One row of the plan: a shape class and the request that shows it."""

    shape: ShapeClass
    request: Request


def warm_plan(card: ModelCard, subject: Subject, wanted: tuple[str, ...] = ()) -> tuple[WarmRow, ...]:
    """The rows of the card's plan, first needed first; those wanted by name, all by default.

    Raises:
        EmptyPlan: there is none.
        Unknown: the card declares no shape class of a wanted name.
    """
    shapes = {shape.name: shape for shape in card.compile.shapes} if card.compile else {}
    if not shapes:
        raise EmptyPlan(subject)
    for name in wanted:
        if name not in shapes:
            raise Unknown("shape class", name, shapes)
    rows = (WarmRow(shape=shapes[name], request=_request(card, shapes[name])) for name in wanted or shapes)
    return tuple(rows)


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
