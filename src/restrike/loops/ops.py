"""The arithmetic of a denoising step as functions of tensors, for which a device may have a faster kernel.

The functions here are torch's own operations, one after another; whoever drives a loop may hand it others
that give the same. Numbers (scale, dt, ...) are 0-d, or columns (N, 1, ..., 1) in a batch of N.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

GuidedEuler = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
SdeStep = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def guided_euler(
    latent: Tensor, conditional: Tensor, unconditional: Tensor, scale: Tensor, dt: Tensor
) -> tuple[Tensor, Tensor]:
    """Classifier-free guidance, then the Euler step: the velocity and the next latent.

    v = v_uncond + scale (v_cond - v_uncond), x' = x + dt v, in the latent's dtype. The two branches may be in
    any dtype.
    """
    conditional, unconditional = conditional.to(latent.dtype), unconditional.to(latent.dtype)
    velocity = unconditional + scale * (conditional - unconditional)
    return velocity, latent + dt * velocity


def sde_step(
    latent: Tensor,
    velocity: Tensor,
    noise: Tensor,
    keep: Tensor,
    move: Tensor,
    deviation: Tensor,
    log_norm: Tensor,
) -> tuple[Tensor, Tensor]:
    """The next latent, mean + deviation noise with mean = keep x + move v, and its log-density (N,)."""
    mean = moved_mean(latent, velocity, keep, move)
    sample = mean + deviation * noise
    return sample, log_density(sample, mean, deviation, log_norm)


def moved_mean(latent: Tensor, velocity: Tensor, keep: Tensor, move: Tensor) -> Tensor:
    """keep x + move v."""
    return latent * keep + velocity * move


def log_density(sample: Tensor, mean: Tensor, deviation: Tensor, log_norm: Tensor) -> Tensor:
    """log N(sample; mean, deviation) of each item, averaged over its elements: shape (N,).

    An average, so that it is free of size. `log_norm` is -log(deviation sqrt(2 pi)).
    """
    squared = ((sample - mean) / deviation) ** 2
    density = log_norm - 0.5 * squared
    return density.mean(dim=tuple(range(1, density.ndim)))


@dataclass(frozen=True, kw_only=True)
class StepOps:
    """What a loop computes its steps with."""

    guided_euler: GuidedEuler = guided_euler
    sde_step: SdeStep = sde_step


TORCH_OPS = StepOps()
