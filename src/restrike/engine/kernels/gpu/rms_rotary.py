"""RMS norm over all heads and the rotary turn in one launch; a program holds one token.

Computes in float32; the norm is rounded to the hidden dtype before the turn, as the reference rounds it.
Axes: B items, S tokens, D channels of all heads, H heads, E channels of one.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from restrike.engine.kernels import reference
from restrike.engine.kernels.contract import Kernel
from restrike.engine.kernels.gpu.layout import launch

WIDEST = 16384


@triton.jit
def _rms_rotary(
    hidden_ptr,
    weight_ptr,
    cos_ptr,
    sin_ptr,
    result_ptr,
    tokens,
    width,
    head_width,
    table_step,
    eps,
    block: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    first = 2 * tl.arange(0, block)
    inside = first < width
    dtype = result_ptr.dtype.element_ty
    real = tl.load(hidden_ptr + row * width + first, mask=inside, other=0.0).to(tl.float32)
    imaginary = tl.load(hidden_ptr + row * width + first + 1, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(real * real + imaginary * imaginary, axis=0) / width + eps)
    real *= scale * tl.load(weight_ptr + first, mask=inside, other=0.0).to(tl.float32)
    imaginary *= scale * tl.load(weight_ptr + first + 1, mask=inside, other=0.0).to(tl.float32)
    real, imaginary = real.to(dtype).to(tl.float32), imaginary.to(dtype).to(tl.float32)
    table = (row // tokens) * table_step + (row % tokens) * head_width + first % head_width
    cos = tl.load(cos_ptr + table, mask=inside, other=0.0).to(tl.float32)
    sin = tl.load(sin_ptr + table + 1, mask=inside, other=0.0).to(tl.float32)
    place = result_ptr + row * width + first
    tl.store(place, (real * cos - imaginary * sin).to(dtype), mask=inside)
    tl.store(place + 1, (real * sin + imaginary * cos).to(dtype), mask=inside)


def rms_rotary(
    workspace: None,
    hidden_BSD: Tensor,
    weight_D: Tensor,
    cos_BS1E: Tensor,
    sin_BS1E: Tensor,
    eps: float,
    heads: int,
) -> Tensor:
    """As `reference.rms_rotary`, which takes what does not lie in memory as this kernel reads it."""
    batch, tokens, width = hidden_BSD.shape
    dense = all(each.is_contiguous() for each in (hidden_BSD, weight_D, cos_BS1E, sin_BS1E))
    tables = cos_BS1E.shape == sin_BS1E.shape and len(cos_BS1E) in (1, batch)
    if not (dense and tables and cos_BS1E.shape[1:] == (tokens, 1, width // heads) and width <= WIDEST):
        return reference.rms_rotary(hidden_BSD, weight_D, cos_BS1E, sin_BS1E, eps, heads)
    result = hidden_BSD.new_empty(batch, tokens, heads, width // heads)
    launch(
        _rms_rotary,
        (batch * tokens,),
        hidden_BSD,
        weight_D,
        cos_BS1E,
        sin_BS1E,
        result,
        tokens,
        width,
        width // heads,
        0 if len(cos_BS1E) == 1 else cos_BS1E.stride(0),
        eps,
        triton.next_power_of_2(width // 2),
    )
    return result


FAST = Kernel(run=rms_rotary)
