"""The digits card: a text-conditioned flow transformer of 0.5 million parameters. Imports no torch."""

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

SIDE_PX = 8


MODEL = "restrike.models.digits.model"


def _component(name: str) -> Component:
    files = (f"{name}.safetensors", "config.json")
    return Component(name=name, load=Deferred(f"{MODEL}:load_{name}"), files=files)


CARD = ModelCard(
    name="digits",
    description="Handwritten digits of 8x8 pixels from a prompt such as 'a seven'; made to be tested with",
    architecture="restrike.digits",
    license="Apache-2.0 (trained on scikit-learn's digits, BSD-3-Clause)",
    components=tuple(map(_component, ("text_encoder", "transformer", "decoder"))),
    loops=(
        LoopSpec(
            name="denoise",
            tasks=(Task.TEXT_TO_IMAGE,),
            components=("text_encoder", "transformer", "decoder"),
            build=Deferred(f"{MODEL}:build_loop"),
            solvers=("euler", "sde", "unipc"),
            guidance=("none", "cfg", "batched"),
        ),
    ),
    defaults=SamplingDefaults(
        width=SIDE_PX, height=SIDE_PX, steps=8, guidance=2.0, guidance_mode="batched", solver="euler"
    ),
    geometry=Geometry(
        width=Axis(minimum=SIDE_PX, maximum=SIDE_PX), height=Axis(minimum=SIDE_PX, maximum=SIDE_PX)
    ),
    recipe=Recipe(method="flow matching", loop="denoise"),
    precisions=("float32", "bfloat16"),
    location=Packaged("restrike.models.digits"),
    example="a seven",
    prompt_fault=Deferred("restrike.models.digits.prompts:prompt_fault"),
    compile=Compile(
        targets=(
            CompileTarget(component="transformer", ingress=("latent", "text", "timestep"), text="text"),
        ),
        shapes=tuple(
            ShapeClass(width=SIDE_PX, height=SIDE_PX, guidance=mode, text_tokens=1)
            for mode in ("batched", "none")
        ),
        tolerance=1e-4,
    ),
)
