"""The digits card: a text-conditioned flow transformer of 0.5 million parameters. Imports no torch."""

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

SIDE_PX = 8


def _text_encoder(checkpoint: Checkpoint, placement: Placement) -> Any:
    from restrike.models.digits.model import load_text_encoder

    return load_text_encoder(checkpoint, placement)


def _transformer(checkpoint: Checkpoint, placement: Placement) -> Any:
    from restrike.models.digits.model import load_transformer

    return load_transformer(checkpoint, placement)


def _decoder(checkpoint: Checkpoint, placement: Placement) -> Any:
    from restrike.models.digits.model import load_decoder

    return load_decoder(checkpoint, placement)


def _denoise(checkpoint: Checkpoint) -> Any:
    from restrike.models.digits.model import build_loop

    return build_loop(checkpoint)


CARD = ModelCard(
    name="digits",
    description="Handwritten digits of 8x8 pixels from a prompt such as 'a seven'; made to be tested with",
    architecture="restrike.digits",
    license="Apache-2.0 (trained on scikit-learn's digits, BSD-3-Clause)",
    components=(
        Component(name="text_encoder", load=_text_encoder, files=("text_encoder.safetensors", "config.json")),
        Component(name="transformer", load=_transformer, files=("transformer.safetensors", "config.json")),
        Component(name="decoder", load=_decoder, files=("decoder.safetensors", "config.json")),
    ),
    loops=(
        LoopSpec(
            name="denoise",
            tasks=(Task.TEXT_TO_IMAGE,),
            components=("text_encoder", "transformer", "decoder"),
            build=_denoise,
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
)
