"""Trains the VAE: first on small crops around the shape, where the detail is, then on whole frames."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from restrike.models.shapes.data import draw_clips
from restrike.models.shapes.scene import CLIP_FRAMES, COMBINATIONS, SIDE_PX, SceneBatch, draw_scenes
from restrike.models.shapes.train.run import Learner, RunConfig, optimizers, train
from restrike.models.shapes.vae import ShapesVAE, VAEConfig

_FRAMES = 9
_KL_WEIGHT = 1e-4
_ABSOLUTE_WEIGHT = 0.15


@dataclass(frozen=True, kw_only=True)
class _Phase:
    side_px: int
    batch: int


_CROPS = _Phase(side_px=32, batch=16)
_WHOLE = _Phase(side_px=SIDE_PX, batch=4)
_CROPS_SHARE = 0.8


def train_vae(config: RunConfig, vae_config: VAEConfig) -> ShapesVAE:
    """Runs the stage and returns the VAE with the statistics of its latents stored."""
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        vae = channels_last(ShapesVAE(vae_config))
    kernels = [parameter for parameter in vae.parameters() if parameter.ndim > 1]

    def loss_of_step(step: int, generator: torch.Generator) -> Tensor:
        return vae_loss(vae, draw_batch(step / config.steps, generator), generator)

    train(config, Learner(module=vae, optimizers=optimizers(vae, kernels, config.peak_rate)), loss_of_step)
    store_statistics(vae, torch.Generator().manual_seed(config.seed))
    return vae


def channels_last(vae: ShapesVAE) -> ShapesVAE:
    """The VAE with its kernels laid out as the convolutions here run fastest."""
    return vae.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]


def vae_loss(vae: ShapesVAE, clip_BCTHW: Tensor, generator: torch.Generator) -> Tensor:
    """Squared error, some absolute error for crisp outlines, and a light KL term."""
    mean_BCTHW, logvar_BCTHW = vae.encoder(clip_BCTHW)
    noise_BCTHW = torch.randn(mean_BCTHW.shape, generator=generator)
    drawn_BCTHW = vae.decoder(mean_BCTHW + (0.5 * logvar_BCTHW).exp() * noise_BCTHW)
    difference_BCTHW = drawn_BCTHW - clip_BCTHW
    error = difference_BCTHW.square().mean() + _ABSOLUTE_WEIGHT * difference_BCTHW.abs().mean()
    divergence = 0.5 * (mean_BCTHW.square() + logvar_BCTHW.exp() - 1.0 - logvar_BCTHW).mean()
    return error + _KL_WEIGHT * divergence


@torch.no_grad()
def store_statistics(vae: ShapesVAE, generator: torch.Generator, count: int = 512) -> None:
    """Measures mean and standard deviation of each latent channel over drawn clips."""
    latents: list[Tensor] = []
    for _ in range(count // 32):
        clip_BCTHW = draw_clips(draw_scenes(COMBINATIONS, 32, generator), torch.arange(CLIP_FRAMES))
        latents.append(vae.encoder(clip_BCTHW)[0])
    std_C, mean_C = torch.std_mean(torch.cat(latents), dim=(0, 2, 3, 4))
    vae.latent_mean_C.copy_(mean_C)
    vae.latent_std_C.copy_(std_C)


def draw_batch(progress: float, generator: torch.Generator) -> Tensor:
    """Clips for one step: crops around the shape until ``_CROPS_SHARE`` of the run, whole frames after."""
    phase = _CROPS if progress < _CROPS_SHARE else _WHOLE
    scenes = draw_scenes(COMBINATIONS, phase.batch, generator)
    first = int(torch.randint(CLIP_FRAMES - _FRAMES + 1, (), generator=generator))
    frames_T = torch.arange(first, first + _FRAMES)
    if phase.side_px < SIDE_PX:
        scenes = _centre(scenes, first + _FRAMES // 2, phase.side_px, generator)
    return draw_clips(scenes, frames_T, side_px=phase.side_px)


def _centre(scenes: SceneBatch, frame: int, side_px: int, generator: torch.Generator) -> SceneBatch:
    """Moves the window so that the shape is near its middle at ``frame``."""
    offset_B2 = side_px * (0.2 + 0.6 * torch.rand(len(scenes), 2, generator=generator))
    return replace(scenes, start_B2=offset_B2 - frame * scenes.velocity_B2)
