"""An endpoint: a title card with a moving shape, as a clip or a still.

restrike endpoints run examples/poster.py:poster --slot pipeline=shapes --payload '{"shape": "star"}'
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

import restrike


class Poster(BaseModel):
    """What to make: a shape in a colour, moving over a plain ground, in one frame or in 17."""

    shape: Literal["circle", "square", "star", "heart"] = "circle"
    colour: str = Field(default="red", max_length=20)
    frames: Annotated[Literal[1, 17], restrike.Varies(17, 1)] = 17
    guidance: Annotated[Literal["batched", "none"], restrike.Varies("batched", "none")] = "batched"
    steps: int = Field(default=24, ge=1, le=100)


@restrike.endpoint(
    slots={"pipeline": restrike.Slot(tasks=("text-to-video",))},
    resources=restrike.Resources(memory_bytes=1 << 30),
    compile=restrike.Compiled(targets=("transformer",), excluding=({"frames": 1, "guidance": "none"},)),
)
def poster(ctx: restrike.Context, payload: Poster) -> restrike.Saved:
    """A shape that moves, as a clip or as a still."""
    steps = ctx.clamp("steps", payload.steps, 4, 50)
    made = ctx.slots["pipeline"].generate(
        f"a {payload.colour} {payload.shape} moving left",
        frames=payload.frames,
        guidance_mode=payload.guidance,
        steps=steps,
    )
    ctx.progress(0.9, "saving")
    return ctx.save_image(made) if payload.frames == 1 else ctx.save_video(made)
