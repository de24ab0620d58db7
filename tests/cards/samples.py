"""Small cards that contradict nothing, for tests to bend."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from restrike.cards.card import (
    Axis,
    Component,
    Geometry,
    LoopSpec,
    ModelCard,
    Recipe,
    SamplingDefaults,
    Task,
)


def nothing(*_: Any) -> None:
    """A loader or builder that is never called."""
    raise AssertionError("a card was validated or resolved by loading it")


TRANSFORMER = Component(name="transformer", load=nothing, files=("transformer/*",))
VAE = Component(name="vae", load=nothing, files=("vae/*",))
LOOP = LoopSpec(
    name="denoise",
    tasks=(Task.TEXT_TO_VIDEO, Task.TEXT_TO_IMAGE),
    components=("transformer", "vae"),
    build=nothing,
    solvers=("euler", "unipc"),
    guidance=("none", "cfg", "batched"),
)
CARD = ModelCard(
    name="sample",
    description="a card made of data",
    architecture="sample-dit",
    license="Apache-2.0",
    components=(TRANSFORMER, VAE),
    loops=(LOOP,),
    defaults=SamplingDefaults(
        width=64,
        height=32,
        frames=9,
        fps=12.0,
        steps=20,
        guidance=4.5,
        guidance_mode="cfg",
        solver="unipc",
        shift=3.0,
        negative_prompt="blurred",
    ),
    geometry=Geometry(
        width=Axis(minimum=32, maximum=128, step=16),
        height=Axis(minimum=32, maximum=128, step=16),
        frames=Axis(minimum=1, maximum=33, step=4, offset=1),
    ),
    recipe=Recipe(method="flow matching", loop="denoise", steps=(2, 100)),
    precisions=("float32", "bfloat16"),
)


def with_defaults(card: ModelCard = CARD, **changes: Any) -> ModelCard:
    """The card with other sampling defaults."""
    return replace(card, defaults=replace(card.defaults, **changes))


def with_loop(card: ModelCard = CARD, **changes: Any) -> ModelCard:
    """The card with its loop changed."""
    return replace(card, loops=(replace(card.loops[0], **changes),))
