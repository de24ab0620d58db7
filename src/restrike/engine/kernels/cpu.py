"""Kernels for the CPU in torch, bit for bit as the references: fewer passes and less memory touched.

An order of operands is never changed where rounding could tell; a result has the strides of the reference's.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from restrike.engine.kernels import reference
from restrike.engine.kernels.contract import Kernel

WHOLE_VECTORS = 16
"""Complex float32 numbers in the widest stride of a vector loop of torch: two registers of AVX-512."""
ONE_THREAD = 32768
"""torch divides an elementwise operation among threads from this many elements on."""


def guided_euler(
    workspace: None, latent: Tensor, conditional: Tensor, unconditional: Tensor, scale: Tensor, dt: Tensor
) -> tuple[Tensor, Tensor]:
    """The velocity grows in the memory of the difference, the next latent in its own."""
    conditional, unconditional = conditional.to(latent.dtype), unconditional.to(latent.dtype)
    velocity = conditional - unconditional
    velocity.mul_(scale).add_(unconditional)
    following = torch.mul(velocity, dt, out=torch.empty_like(latent))
    return velocity, following.add_(latent)


def sde_step(
    workspace: None,
    latent: Tensor,
    velocity: Tensor,
    noise: Tensor,
    keep: Tensor,
    move: Tensor,
    deviation: Tensor,
    log_norm: Tensor,
) -> tuple[Tensor, Tensor]:
    """Three tensors are made and no more; the density takes the memory of the mean."""
    mean = torch.mul(latent, keep)
    sample = torch.mul(velocity, move, out=torch.empty_like(mean))
    mean.add_(sample)
    torch.mul(noise, deviation, out=sample).add_(mean)
    density = mean.sub_(sample).div_(deviation).square_().mul_(-0.5).add_(log_norm)
    return sample, density.mean(dim=tuple(range(1, density.ndim)))


def rms_rotary(
    workspace: None,
    hidden_BSD: Tensor,
    weight_D: Tensor,
    cos_BS1E: Tensor,
    sin_BS1E: Tensor,
    eps: float,
    heads: int,
) -> Tensor:
    """A pair of channels is a complex number, its turn one product, some tokens at a time.

    torch multiplies whole vectors of complex numbers without fusing, as the reference does, but what is left
    over at the end of a row, or of a thread's share, with fused operations, which round otherwise. So rows
    must be whole vectors, and a part is small enough that one thread takes it.
    """
    pairs = hidden_BSD.shape[-1] // heads // 2
    tokens = (ONE_THREAD - 1) // (len(hidden_BSD) * heads * pairs)
    if pairs % WHOLE_VECTORS or not tokens:
        return reference.rms_rotary(hidden_BSD, weight_D, cos_BS1E, sin_BS1E, eps, heads)
    normal_BSHE = F.rms_norm(hidden_BSD, hidden_BSD.shape[-1:], weight_D, eps).unflatten(-1, (heads, -1))
    turn = torch.complex(cos_BS1E[..., 0::2], sin_BS1E[..., 1::2])
    for part, by in zip(normal_BSHE.split(tokens, dim=1), turn.split(tokens, dim=1), strict=True):
        wide = part.to(cos_BS1E.dtype)  # the part itself where that is its dtype: turned in place
        torch.view_as_complex(wide.unflatten(-1, (-1, 2))).mul_(by)
        if wide is not part:
            part.copy_(wide)
    return normal_BSHE


GUIDED_EULER = Kernel(run=guided_euler)
SDE_STEP = Kernel(run=sde_step)
RMS_ROTARY = Kernel(run=rms_rotary)
