"""How shapes are denoised: the card's loop and its components. Keeps nothing between calls.

Axes as in transformer.py and vae.py; frames_THWC are uint8 RGB of 64x64 pixels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
from restrike.models.shapes.text_encoder import ShapesTextEncoder, TextEncoderConfig
from restrike.models.shapes.tokenizer import tokenize, unknown_words
from restrike.models.shapes.transformer import ShapesTransformer, TransformerConfig
from restrike.models.shapes.vae import SPATIAL_STRIDE, TEMPORAL_STRIDE, ShapesVAE, VAEConfig
from restrike.models.weights import with_weights

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, kw_only=True)
class ShapesConfig:
    """What config.json holds: one section a component."""

    text_encoder: TextEncoderConfig
    transformer: TransformerConfig
    vae: VAEConfig


@dataclass(frozen=True)
class ShapesModel:
    """A `DiffusionModel` of clips (and, with one frame, stills) in a compact latent."""

    config: ShapesConfig

    def notices(self, arguments: Arguments) -> tuple[str, ...]:
        """The words of either prompt that the model has never seen."""
        unknown = unknown_words(f"{arguments.prompt} {arguments.negative_prompt}")
        listed = ", ".join(f"'{word}'" for word in unknown)
        return (f"card 'shapes' has never seen {listed} and leaves it out",) if unknown else ()

    def sampler(self, context: LoopContext) -> tuple[Schedule, Solver]:
        """Evenly spaced sigmas, shifted as asked."""
        asked = context.arguments
        return flow_schedule(asked.steps, shift=asked.shift, sigmas=asked.sigmas), solver(asked.solver)

    def expert(self, timestep: float) -> str:
        """There is one denoiser."""
        return "transformer"

    def latent_shape(self, context: LoopContext) -> tuple[int, ...]:
        """BCTHW of one clip."""
        asked = context.arguments
        frames = 1 + (asked.frames - 1) // TEMPORAL_STRIDE
        rows, columns = asked.height // SPATIAL_STRIDE, asked.width // SPATIAL_STRIDE
        return (1, self.config.vae.latent_channels, frames, rows, columns)

    def conditioning(self, context: LoopContext, expert: str, branch: str) -> Mapping[str, Tensor]:
        """`text` (BLD) and `mask` (BL) of the prompt, or of the negative prompt."""
        asked = context.arguments
        prompt = asked.prompt if branch == "cond" else asked.negative_prompt
        tokens = tokenize([prompt])
        token_BL, mask_BL = tokens.token_BL.to(context.device), tokens.mask_BL.to(context.device)
        encoded = context.features(
            "text_encoder",
            (token_BL, mask_BL),
            lambda: {"text": context.component("text_encoder")(token_BL, mask_BL)},
        )
        return {**encoded, "mask": mask_BL}

    def denoise(self, module: Any, inputs: Tensors) -> Tensor:
        """The velocity (BCTHW) from `latent`, `timestep`, `text` and `mask`."""
        return module(inputs["latent"], inputs["timestep"], inputs["text"], inputs["mask"])

    def decode(self, context: LoopContext, latent: Tensor) -> np.ndarray[Any, Any]:
        """All frames of a clean latent."""
        vae: ShapesVAE = context.component("vae")
        clip_BCTHW = vae.decode(latent.to(vae.latent_mean_C.dtype)).float()
        level_BCTHW = ((clip_BCTHW.clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8)
        return level_BCTHW[0].permute(1, 2, 3, 0).cpu().numpy()

    def preview(self, context: LoopContext, latent: Tensor) -> np.ndarray[Any, Any]:
        """The decoder is cheap enough."""
        return self.decode(context, latent)


def build_loop(checkpoint: Checkpoint) -> DenoiseLoop:
    """The denoising loop of a checkpoint's sizes."""
    return DenoiseLoop(ShapesModel(_config(checkpoint)))


def load_text_encoder(checkpoint: Checkpoint, placement: Placement) -> ShapesTextEncoder:
    """The text encoder with its weights."""
    config = _config(checkpoint).text_encoder
    return with_weights(lambda: ShapesTextEncoder(config), checkpoint, "text_encoder.safetensors", placement)


def load_transformer(checkpoint: Checkpoint, placement: Placement) -> ShapesTransformer:
    """The denoiser with its weights."""
    config = _config(checkpoint).transformer
    return with_weights(lambda: ShapesTransformer(config), checkpoint, "transformer.safetensors", placement)


def load_vae(checkpoint: Checkpoint, placement: Placement) -> ShapesVAE:
    """The video VAE with its weights and latent statistics."""
    config = _config(checkpoint).vae
    return with_weights(lambda: ShapesVAE(config), checkpoint, "vae.safetensors", placement)


def _config(checkpoint: Checkpoint) -> ShapesConfig:
    sections = checkpoint.json("config.json")
    try:
        return ShapesConfig(
            text_encoder=TextEncoderConfig(**sections["text_encoder"]),
            transformer=TransformerConfig(**sections["transformer"]),
            vae=VAEConfig(**sections["vae"]),
        )
    except (KeyError, TypeError) as error:
        raise Refused(
            f"checkpoint '{checkpoint.name}': config.json is not that of shapes ({error})"
        ) from error
