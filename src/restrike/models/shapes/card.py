"""The shapes card: the embedded text-to-video model, a small latent diffusion model. Imports no torch."""

from __future__ import annotations

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
from restrike.cards.compile import Compile, CompileTarget, ShapeClass
from restrike.cards.deferred import Deferred

_SIDE_PX = 64
_CLIP_FRAMES = 17
_TEXT_TOKENS = 12


MODEL = "restrike.models.shapes.model"


def _component(name: str) -> Component:
    files = (f"{name}.safetensors", "config.json")
    return Component(name=name, load=Deferred(f"{MODEL}:load_{name}"), files=files)


CARD = ModelCard(
    name="shapes",
    description="Clips of a shape that moves, grows or rests, such as 'a red heart moving up on white'",
    architecture="restrike.shapes",
    license="Apache-2.0",
    components=tuple(map(_component, ("text_encoder", "transformer", "vae"))),
    loops=(
        LoopSpec(
            name="denoise",
            tasks=(Task.TEXT_TO_VIDEO, Task.TEXT_TO_IMAGE),
            components=("text_encoder", "transformer", "vae"),
            build=Deferred(f"{MODEL}:build_loop"),
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
        guidance=3.5,
        guidance_mode="batched",
        solver="euler",
        shift=3.5,
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
    compile=Compile(
        targets=(
            CompileTarget(
                component="transformer", ingress=("latent", "mask", "text", "timestep"), text="text"
            ),
        ),
        shapes=tuple(
            ShapeClass(
                width=_SIDE_PX,
                height=_SIDE_PX,
                frames=frames,
                guidance="batched",
                text_tokens=_TEXT_TOKENS,
            )
            for frames in (_CLIP_FRAMES, 1)
        ),
        tolerance=1e-4,
    ),
)
