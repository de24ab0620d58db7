"""Layer norm, scale and shift in one launch: a program holds a row, so that it is read and written once.

Computes in float32 and rounds once, at the end.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from restrike.engine.kernels import reference
from restrike.engine.kernels.contract import Kernel
from restrike.engine.kernels.gpu.layout import launch

EPS = 1e-5
WIDEST = 16384


@triton.jit
def _modulate(
    hidden_ptr,
    shift_ptr,
    scale_ptr,
    result_ptr,
    width,
    rows_an_item,
    shift_step,
    scale_step,
    eps,
    block: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    item = row // rows_an_item
    within = tl.arange(0, block)
    inside = within < width
    hidden = tl.load(hidden_ptr + row * width + within, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(hidden, axis=0) / width
    centred = tl.where(inside, hidden - mean, 0.0)
    normal = centred * tl.rsqrt(tl.sum(centred * centred, axis=0) / width + eps)
    shift = tl.load(shift_ptr + item * shift_step + within, mask=inside, other=0.0).to(tl.float32)
    scale = tl.load(scale_ptr + item * scale_step + within, mask=inside, other=0.0).to(tl.float32)
    result = normal * (1.0 + scale) + shift
    tl.store(result_ptr + row * width + within, result.to(result_ptr.dtype.element_ty), mask=inside)


def modulate(workspace: None, hidden: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """As `reference.modulate`, which takes what this kernel does not read: rows that are not dense or too
    wide, or a condition that is not one vector an item."""
    width = hidden.shape[-1]
    fits = hidden.is_contiguous() and hidden.ndim > 1 and width <= WIDEST
    if not (fits and _one_an_item(hidden, shift) and _one_an_item(hidden, scale)):
        return reference.modulate(hidden, shift, scale)
    result = torch.empty_like(hidden)
    rows = hidden.numel() // width
    launch(
        _modulate,
        (rows,),
        hidden,
        shift,
        scale,
        result,
        width,
        rows // len(hidden),
        shift.stride(0),
        scale.stride(0),
        EPS,
        triton.next_power_of_2(width),
    )
    return result


def _one_an_item(hidden: Tensor, condition: Tensor) -> bool:
    between = (1,) * (hidden.ndim - 2)
    shape = (len(hidden), *between, hidden.shape[-1])
    return condition.shape == shape and condition.stride(-1) == 1 and condition.dtype == hidden.dtype


FAST = Kernel(run=modulate)
