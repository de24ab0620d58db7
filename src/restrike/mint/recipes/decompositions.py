"""Operations of a traced call taken apart for a processor's compiler: into what it fuses or hands on better.

The same mathematics, rounded elsewhere. It leaves the traced program as it is, which decides a cell's key;
that a call is taken apart otherwise is told by the wrapper's epoch.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram

from restrike.mint.cell.facts import Target


def decomposed(program: ExportedProgram, target: Target) -> ExportedProgram:
    """The program as the target's compiler gets it: for a GPU, as it was traced."""
    return program.run_decompositions(dict(_ON_PROCESSOR)) if target.kind == "cpu" else program


def linear(hidden: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """One product of all rows, then the bias as a part of whatever follows.

    Left to itself the compiler multiplies a `hidden` whose rows do not lie in order (as after a convolution)
    by many small products, and writes the bias through memory before each product.
    """
    rows, shape = hidden.reshape(-1, hidden.shape[-1]), (*hidden.shape[:-1], weight.shape[0])
    if bias is None:
        return torch.mm(rows, weight.t()).view(shape)
    if hidden.dtype is not torch.float32:
        # A product and then a sum are rounded twice, which shows in half precision.
        return torch.addmm(bias, rows, weight.t()).view(shape)
    return torch.mm(rows, weight.t()).view(shape) + bias


def gelu(value: Tensor, *, approximate: str = "none") -> Tensor:
    """x / 2 * (1 + tanh(u)) as x * sigmoid(2u): one exponential, and nothing cancels where tanh nears -1.

    u = sqrt(2 / pi) * (x + 0.044715 * x ** 3), https://arxiv.org/abs/1606.08415.
    """
    if approximate != "tanh":
        return NotImplemented
    wide = value.to(torch.promote_types(value.dtype, torch.float32))
    twice = 2 * math.sqrt(2 / math.pi)
    gate = torch.sigmoid(wide * (twice + twice * 0.044715 * (wide * wide)))
    return (wide * gate).to(value.dtype)


_ON_PROCESSOR: dict[Any, Any] = {
    torch.ops.aten.linear.default: linear,
    torch.ops.aten.gelu.default: gelu,
}
