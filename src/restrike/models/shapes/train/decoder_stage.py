"""Trains the decoder of a finished VAE on: the encoder stays, so latents and the transformer stay valid.

The latents get the small errors that a transformer makes, and the loss asks for crisp outlines.
"""

from __future__ import annotations

import torch
from torch import Tensor

from restrike.models.shapes.train.run import Learner, RunConfig, optimizers, train
from restrike.models.shapes.train.vae_stage import draw_batch
from restrike.models.shapes.vae import ShapesVAE

_LATENT_ERROR = 0.12
_ABSOLUTE_WEIGHT = 0.5


def train_decoder(config: RunConfig, vae: ShapesVAE) -> None:
    """Runs the stage on ``vae`` in place."""
    decoder = vae.decoder
    kernels = [parameter for parameter in decoder.parameters() if parameter.ndim > 1]

    def loss_of_step(step: int, generator: torch.Generator) -> Tensor:
        return decoder_loss(vae, draw_batch(step / config.steps, generator), generator)

    learner = Learner(module=decoder, optimizers=optimizers(decoder, kernels, config.peak_rate))
    train(config, learner, loss_of_step)


def decoder_loss(vae: ShapesVAE, clip_BCTHW: Tensor, generator: torch.Generator) -> Tensor:
    """Squared and absolute error of clips decoded from slightly wrong latents."""
    with torch.no_grad():
        latent_BCTHW = vae.encode(clip_BCTHW)
        error_BCTHW = torch.randn(latent_BCTHW.shape, generator=generator)
    difference_BCTHW = vae.decode(latent_BCTHW + _LATENT_ERROR * error_BCTHW) - clip_BCTHW
    return difference_BCTHW.square().mean() + _ABSOLUTE_WEIGHT * difference_BCTHW.abs().mean()
