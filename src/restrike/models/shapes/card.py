"""The shapes card: the embedded text-to-video model, a small latent diffusion model. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
from restrike.cards.checkpoint import Packaged

if TYPE_CHECKING:
    from restrike.cards.checkpoint import Checkpoint
    from restrike.cards.placement import Placement

_SIDE_PX = 64
_CLIP_FRAMES = 17


def _text_encoder(checkpoint: Checkpoint, placement: Placement) -> Any:
    from restrike.models.shapes.model import load_text_encoder

    return load_text_encoder(checkpoint, placement)


def _transformer(checkpoint: Checkpoint, placement: Placement) -> Any:
    from restrike.models.shapes.model import load_transformer

    return load_transformer(checkpoint, placement)


def _vae(checkpoint: Checkpoint, placement: Placement) -> Any:
    from restrike.models.shapes.model import load_vae

    return load_vae(checkpoint, placement)


def _denoise(checkpoint: Checkpoint) -> Any:
    from restrike.models.shapes.model import build_loop

    return build_loop(checkpoint)


CARD = ModelCard(
    name="shapes",
    description="Clips of a shape that moves, grows or rests, such as 'a red heart moving up on white'",
    architecture="restrike.shapes",
    license="Apache-2.0",
    components=(
        Component(name="text_encoder", load=_text_encoder, files=("text_encoder.safetensors", "config.json")),
        Component(name="transformer", load=_transformer, files=("transformer.safetensors", "config.json")),
        Component(name="vae", load=_vae, files=("vae.safetensors", "config.json")),
    ),
    loops=(
        LoopSpec(
            name="denoise",
            tasks=(Task.TEXT_TO_VIDEO, Task.TEXT_TO_IMAGE),
            components=("text_encoder", "transformer", "vae"),
            build=_denoise,
            solvers=("euler", "sde", "unipc"),
            guidance=("none", "cfg", "batched"),
        ),
    ),
    defaults=SamplingDefaults(
        width=_SIDE_PX,
        height=_SIDE_PX,
        frames=_CLIP_FRAMES,
        fps=12.0,
        steps=24,
        guidance=3.0,
        guidance_mode="batched",
        solver="euler",
        shift=2.5,
    ),
    geometry=Geometry(
        width=Axis(minimum=_SIDE_PX, maximum=_SIDE_PX),
        height=Axis(minimum=_SIDE_PX, maximum=_SIDE_PX),
        frames=Axis(minimum=1, maximum=_CLIP_FRAMES, step=4, offset=1),
    ),
    recipe=Recipe(method="flow matching", loop="denoise"),
    precisions=("float32", "bfloat16"),
    location=Packaged("restrike.models.shapes"),
    example="a red circle moving left",
)
