"""The endpoint that every card is: one slot, one handler, a payload of the card's own limits."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, Field, create_model

from restrike.cards.card import Axis, ModelCard
from restrike.cards.compile import ShapeClass
from restrike.endpoints.context import Context
from restrike.endpoints.declaration import Compiled, Endpoint, Slot
from restrike.endpoints.payloads import Pixels
from restrike.endpoints.saving import Saved

SLOT = "pipeline"


def endpoint_of(card: ModelCard) -> Endpoint:
    """The card as an endpoint; its plan is a payload for each shape class that it declares."""
    payload = _payload_of(card)

    def generate(ctx: Context, payload: Any) -> list[Saved]:
        options = payload.model_dump(exclude_none=True, exclude={"prompt"})
        made = ctx.slots[SLOT].generate(payload.prompt, **options)
        still = made.arguments.frames == 1
        save, suffix = (ctx.save_image, "png") if still else (ctx.save_video, "mp4")
        return [save(picture, f"{card.name}-{picture.item}.{suffix}") for picture in made.pictures]

    generate.__annotations__["payload"] = payload
    generate.__name__ = generate.__qualname__ = card.name
    generate.__doc__ = card.description
    compiled = None
    if card.compile is not None:
        rows = tuple(_row(card, shape) for shape in card.compile.shapes)
        compiled = Compiled(slot=SLOT, rows=rows)
    return Endpoint(name=card.name, target=generate, slots={SLOT: Slot()}, compiled=compiled)


def _payload_of(card: ModelCard) -> type[BaseModel]:
    guidance = tuple(dict.fromkeys(mode for loop in card.loops for mode in loop.guidance))
    solvers = tuple(dict.fromkeys(name for loop in card.loops for name in loop.solvers))
    size = card.geometry
    least, most = card.recipe.steps
    fields: dict[str, Any] = {
        "prompt": (str, Field(min_length=1, examples=[card.example or card.description])),
        "negative_prompt": (str | None, None),
        "width": _axis(size.width),
        "height": _axis(size.height),
        "frames": _axis(size.frames),
        "fps": (float | None, Field(default=None, ge=0.1, le=1000)),
        "steps": (int | None, Field(default=None, ge=least, le=most)),
        "guidance": (float | None, Field(default=None, ge=0, le=1000)),
        "guidance_mode": (Literal[(*guidance, None)], None),
        "shift": (float | None, Field(default=None, ge=0.01, le=100)),
    }
    if solvers:
        fields["solver"] = (Literal[(*solvers, None)], None)
    if any(str(task).startswith("image-to-") for task in card.tasks()):
        fields["image"] = (Pixels, None)
    return create_model(f"{card.name}_payload", **fields)


def _axis(axis: Axis) -> Any:
    return (int | None, Field(default=None, ge=axis.minimum, le=axis.maximum, description=str(axis)))


def _row(card: ModelCard, shape: ShapeClass) -> dict[str, Any]:
    """The payload that shows a shape class."""
    row: dict[str, Any] = {
        "prompt": card.example or card.description,
        "guidance_mode": shape.guidance,
        "width": shape.width,
        "height": shape.height,
        "frames": shape.frames,
    }
    if shape.from_image:
        row["image"] = np.full((shape.height, shape.width, 3), 128, np.uint8)
    return row
