"""The stochastic step and its log-probability in one launch, in two kinds.

`EXACT` leaves the density of each element in its workspace for torch's own mean, so that even the sum rounds
as the reference's. `FAST` leaves one partial sum a block there, which a second small launch adds up.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
import triton
import triton.language as tl
from torch import Tensor

from restrike.engine.kernels.contract import Kernel
from restrike.engine.kernels.gpu.layout import item_size, launch, numbers, plain, step
from restrike.loops import ops

BLOCK = 1024
FLOAT_BYTES = 4


@triton.jit
def _sde_step(
    latent_ptr,
    velocity_ptr,
    noise_ptr,
    keep_ptr,
    move_ptr,
    deviation_ptr,
    log_norm_ptr,
    sample_ptr,
    density_ptr,
    size,
    number_step: tl.constexpr,
    summed: tl.constexpr,
    block: tl.constexpr,
):
    item = tl.program_id(1)
    within = tl.program_id(0) * block + tl.arange(0, block)
    inside = within < size
    place = item.to(tl.int64) * size + within
    keep = tl.load(keep_ptr + item * number_step)
    move = tl.load(move_ptr + item * number_step)
    deviation = tl.load(deviation_ptr + item * number_step)
    log_norm = tl.load(log_norm_ptr + item * number_step)
    latent = tl.load(latent_ptr + place, mask=inside, other=0.0)
    velocity = tl.load(velocity_ptr + place, mask=inside, other=0.0)
    noise = tl.load(noise_ptr + place, mask=inside, other=0.0)
    mean = latent * keep + velocity * move
    sample = mean + deviation * noise
    tl.store(sample_ptr + place, sample, mask=inside)
    away = tl.div_rn(sample - mean, deviation)
    density = log_norm - 0.5 * (away * away)
    if summed:
        partial = tl.sum(tl.where(inside, density, 0.0), axis=0)
        tl.store(density_ptr + item * tl.num_programs(0) + tl.program_id(0), partial)
    else:
        tl.store(density_ptr + place, density, mask=inside)


@triton.jit
def _mean(partial_ptr, log_prob_ptr, blocks, size, block: tl.constexpr):
    item = tl.program_id(0)
    total = tl.zeros((block,), dtype=tl.float32)
    for start in range(0, blocks, block):
        within = start + tl.arange(0, block)
        total += tl.load(partial_ptr + item * blocks + within, mask=within < blocks, other=0.0)
    tl.store(log_prob_ptr + item, tl.sum(total, axis=0) / size)


def exact(workspace: Tensor, *arguments: Tensor) -> tuple[Tensor, Tensor]:
    """As `loops.ops.sde_step`, bit for bit."""
    latent = arguments[0]
    if not _fits(*arguments):
        return ops.sde_step(*arguments)
    density = workspace.view(torch.float32).view(latent.shape)
    sample = _launched(density, *arguments, summed=False)
    return sample, density.mean(dim=tuple(range(1, density.ndim)))


def fast(workspace: Tensor, *arguments: Tensor) -> tuple[Tensor, Tensor]:
    """As `loops.ops.sde_step`; the sample bit for bit, the log-probability within rounding."""
    latent = arguments[0]
    if not _fits(*arguments):
        return ops.sde_step(*arguments)
    partial = workspace.view(torch.float32)
    sample = _launched(partial, *arguments, summed=True)
    log_prob = latent.new_empty(len(latent))
    launch(_mean, (len(latent),), partial, log_prob, len(partial) // len(latent), item_size(latent), BLOCK)
    return sample, log_prob


def _fits(latent: Tensor, velocity: Tensor, noise: Tensor, *coefficients: Tensor) -> bool:
    alike = len({step(number) for number in coefficients}) == 1
    return plain(latent, velocity, noise) and alike and numbers(latent, *coefficients)


def _launched(density: Tensor, latent: Tensor, *arguments: Tensor, summed: bool) -> Tensor:
    sample, size = torch.empty_like(latent), item_size(latent)
    launch(
        _sde_step,
        (triton.cdiv(size, BLOCK), len(latent)),
        latent,
        *arguments,
        sample,
        density,
        size,
        step(arguments[-1]),
        summed,
        BLOCK,
        enable_fp_fusion=False,
    )
    return sample


def density_bytes(shape: Sequence[int]) -> int:
    """One float32 an element."""
    return FLOAT_BYTES * prod(shape)


def partial_bytes(shape: Sequence[int]) -> int:
    """One float32 a block."""
    return FLOAT_BYTES * shape[0] * triton.cdiv(prod(shape[1:]), BLOCK)


EXACT = Kernel(run=exact, workspace_bytes=density_bytes)
FAST = Kernel(run=fast, workspace_bytes=partial_bytes)
