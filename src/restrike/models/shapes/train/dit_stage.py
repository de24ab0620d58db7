"""Trains the text encoder and the transformer together by flow matching on latents of the frozen VAE.

x_sigma = (1 - sigma) * x0 + sigma * noise, and the target is noise - x0
(https://arxiv.org/abs/2210.02747); sigma is logit-normal, shifted towards noise
(https://arxiv.org/abs/2403.03206), because a few dozen redundant patches survive much of it.
"""

from __future__ import annotations

import re

import torch
from torch import Tensor, nn

from restrike.models.shapes.text_encoder import ShapesTextEncoder
from restrike.models.shapes.tokenizer import tokenize
from restrike.models.shapes.train.bank import Batch, LatentBank
from restrike.models.shapes.train.run import Learner, RunConfig, completed_steps, optimizers, train
from restrike.models.shapes.transformer import ShapesTransformer
from restrike.models.shapes.vae import ShapesVAE

_BANK = 2048
_CLIPS = 48
_SHORT = 12
_SHORT_LENGTHS = (1, 1, 1, 2, 3, 4)
_SHORT_WEIGHT = 0.2
_SHIFT = 3.5
_INSIDE = re.compile(r"blocks\.|cells_(before|after).*(conv|time)|fine_")
_UNIFORM_SHARE = 0.15


class Denoiser(nn.Module):
    """The two modules that this stage trains, under one set of weights."""

    def __init__(self, text_encoder: ShapesTextEncoder, transformer: ShapesTransformer) -> None:
        super().__init__()
        self.text_encoder = text_encoder
        self.transformer = transformer

    def forward(self, latent_BCTHW: Tensor, timestep_B: Tensor, prompts: list[str]) -> Tensor:
        """Velocity for each prompt."""
        tokens = tokenize(prompts)
        text_BLD = self.text_encoder(tokens.token_BL, tokens.mask_BL)
        return self.transformer(latent_BCTHW, timestep_B, text_BLD, tokens.mask_BL)


def train_dit(config: RunConfig, vae: ShapesVAE, denoiser: Denoiser, average: Denoiser) -> None:
    """Runs the stage; ``average`` ends as the weights to ship."""
    learner = Learner(
        module=denoiser,
        optimizers=optimizers(denoiser, _matrices(denoiser), config.peak_rate),
        average=average,
    )
    bank = LatentBank(vae, seed=config.seed, size=_BANK, first=8 * completed_steps(config))

    def loss_of_step(step: int, generator: torch.Generator) -> Tensor:
        bank.renew()
        clips = bank.draw(_CLIPS, frames=bank.frames, generator=generator)
        length = int(torch.randint(len(_SHORT_LENGTHS), (), generator=generator))
        short = bank.draw(_SHORT, frames=_SHORT_LENGTHS[length], generator=generator)
        clip_loss = flow_loss(denoiser, clips, generator)
        return clip_loss + _SHORT_WEIGHT * flow_loss(denoiser, short, generator)

    train(config, learner, loss_of_step)


def flow_loss(denoiser: Denoiser, batch: Batch, generator: torch.Generator) -> Tensor:
    """Mean squared error of the predicted velocity at random sigmas."""
    clean_BCTHW = batch.latent_BCTHW
    noise_BCTHW = torch.randn(clean_BCTHW.shape, generator=generator)
    sigma_B = draw_sigmas(clean_BCTHW.shape[0], generator)
    sigma_B1111 = sigma_B[:, None, None, None, None]
    noisy_BCTHW = torch.lerp(clean_BCTHW, noise_BCTHW, sigma_B1111)
    velocity_BCTHW = denoiser(noisy_BCTHW, 1000.0 * sigma_B, batch.captions)
    return (velocity_BCTHW - (noise_BCTHW - clean_BCTHW)).square().mean()


def draw_sigmas(count: int, generator: torch.Generator) -> Tensor:
    """Noise levels: logit-normal with a share of uniform ones, shifted."""
    normal_B = torch.randn(count, generator=generator).sigmoid()
    uniform_B = torch.rand(count, generator=generator)
    share_B = torch.rand(count, generator=generator)
    level_B = torch.where(share_B < _UNIFORM_SHARE, uniform_B, normal_B)
    return _SHIFT * level_B / (1.0 + (_SHIFT - 1.0) * level_B)


def _matrices(denoiser: Denoiser) -> list[nn.Parameter]:
    """The weights inside blocks, which Muon trains; embeddings and modulation are not among them."""
    return [
        parameter
        for name, parameter in denoiser.named_parameters()
        if parameter.ndim > 1 and name.endswith("weight") and _INSIDE.search(name)
    ]
