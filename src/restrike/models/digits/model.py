"""How the digits are denoised: the card's loop and its components. Keeps nothing between calls.

Axes as in transformer.py; frames_THWC is one frame of 8x8 pixels, uint8 RGB, bright ink on black.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from restrike.cards.checkpoint import Checkpoint
from restrike.cards.placement import Placement
from restrike.cards.request import Arguments
from restrike.errors import Refused
from restrike.loops.contract import LoopContext, Tensors
from restrike.loops.denoise import DenoiseLoop
from restrike.loops.schedule import Schedule, flow_schedule
from restrike.loops.solvers.base import Solver
from restrike.loops.solvers.registry import solver
from restrike.models.digits.decoder import DigitsDecoder
from restrike.models.digits.prompts import unknown_words
from restrike.models.digits.text_encoder import DigitsTextEncoder, tokenize
from restrike.models.digits.transformer import DigitsTransformer, TransformerConfig
from restrike.models.weights import with_weights


@dataclass(frozen=True)
class DigitsModel:
    """A `DiffusionModel` of stills with one latent cell a pixel."""

    side: int

    def notices(self, arguments: Arguments) -> tuple[str, ...]:
        """The words of either prompt that say nothing to this model."""
        unknown = unknown_words(f"{arguments.prompt} {arguments.negative_prompt}")
        listed = ", ".join(f"'{word}'" for word in unknown)
        return (f"card 'digits' knows digits only and leaves out {listed}",) if unknown else ()

    def sampler(self, context: LoopContext) -> tuple[Schedule, Solver]:
        """Evenly spaced sigmas, shifted as asked."""
        asked = context.arguments
        return flow_schedule(asked.steps, shift=asked.shift, sigmas=asked.sigmas), solver(asked.solver)

    def expert(self, timestep: float) -> str:
        """There is one denoiser."""
        return "transformer"

    def latent_shape(self, context: LoopContext) -> tuple[int, ...]:
        """BCHW of one picture."""
        return (1, 1, self.side, self.side)

    def conditioning(self, context: LoopContext, expert: str, branch: str) -> Mapping[str, Tensor]:
        """`text` (BLD) of the prompt, or of the negative prompt; raises Refused as `digit_of` does."""
        asked = context.arguments
        prompt = asked.prompt if branch == "cond" else asked.negative_prompt
        token_B = tokenize(prompt, context.device)
        return context.features(
            "text_encoder", (token_B,), lambda: {"text": context.component("text_encoder")(token_B)}
        )

    def denoise(self, module: Any, inputs: Tensors) -> Tensor:
        """The velocity (BCHW) from `latent`, `timestep` and `text`."""
        return module(inputs["latent"], inputs["timestep"], inputs["text"])

    def decode(self, context: LoopContext, latent: Tensor) -> np.ndarray[Any, Any]:
        """One frame of a clean latent."""
        decoder: DigitsDecoder = context.component("decoder")
        ink_HW1 = decoder(latent.to(decoder.mean_HW.dtype)).float()[0].permute(1, 2, 0)
        level_HW1 = (ink_HW1 * 255).round().to(torch.uint8).cpu().numpy()
        return level_HW1[None].repeat(3, axis=-1)

    def preview(self, context: LoopContext, latent: Tensor) -> np.ndarray[Any, Any]:
        """The decoder is cheap enough."""
        return self.decode(context, latent)


def build_loop(checkpoint: Checkpoint) -> DenoiseLoop:
    """The denoising loop of a checkpoint's size."""
    return DenoiseLoop(DigitsModel(side=_config(checkpoint).side))


def load_text_encoder(checkpoint: Checkpoint, placement: Placement) -> DigitsTextEncoder:
    """The text encoder with its weights."""
    width = _config(checkpoint).width
    file = "text_encoder.safetensors"
    return with_weights(lambda: DigitsTextEncoder(width), checkpoint, file, placement)


def load_transformer(checkpoint: Checkpoint, placement: Placement) -> DigitsTransformer:
    """The denoiser with its weights."""
    config = _config(checkpoint)
    file = "transformer.safetensors"
    return with_weights(lambda: DigitsTransformer(config), checkpoint, file, placement)


def load_decoder(checkpoint: Checkpoint, placement: Placement) -> DigitsDecoder:
    """The decoder with its statistics."""
    side = _config(checkpoint).side
    return with_weights(lambda: DigitsDecoder(side), checkpoint, "decoder.safetensors", placement)


def _config(checkpoint: Checkpoint) -> TransformerConfig:
    try:
        return TransformerConfig(**checkpoint.json("config.json"))
    except TypeError as error:
        raise Refused(
            f"checkpoint '{checkpoint.name}': config.json is not that of digits ({error})"
        ) from error
