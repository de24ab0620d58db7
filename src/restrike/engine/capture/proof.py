"""What it takes to believe a graph: its outputs equal eager's bit for bit, on inputs it was not made with.

Compares and perturbs; never changes what it is given.
"""

from __future__ import annotations

import torch
from torch import Tensor

from restrike.engine.capture.buffers import StaticInputs, once
from restrike.loops.contract import Tensors

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def difference(eager: Tensors, replayed: Tensors) -> str | None:
    """The first output that is not the same, bit for bit, with how it differs; None when all are."""
    if list(eager) != list(replayed):
        return f"eager gives {', '.join(eager)}, the replay {', '.join(replayed)}"
    for name, expected in eager.items():
        got = replayed[name]
        if (expected.shape, expected.dtype) != (got.shape, got.dtype):
            return f"output '{name}' has another shape or dtype"
        if not same_bits(expected, got):
            return f"output '{name}' differs{_by_how_much(expected, got)}"
    return None


def perturbed(inputs: Tensors) -> dict[str, Tensor]:
    """Other inputs of the same layout that the step must accept as well.

    Floating values are moved by one place and scaled by 3/4, which keeps sigmas and timesteps in their
    range; whole numbers and masks are moved alone, which keeps them valid positions.
    """
    other = StaticInputs(inputs)
    other.fill({name: _moved(once(each)) for name, each in inputs.items()})
    return other.tensors


def _moved(tensor: Tensor) -> Tensor:
    moved = torch.roll(tensor, 1) if tensor.ndim else tensor
    return moved * 0.75 if tensor.is_floating_point() or tensor.is_complex() else moved


def same_bits(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors of one shape and dtype hold the same bits: NaN equals itself, 0 is not -0."""
    return torch.equal(_bits(one), _bits(other))


def _bits(tensor: Tensor) -> Tensor:
    plain = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return plain.reshape(-1).view(_BITS[plain.element_size()])


def _by_how_much(expected: Tensor, got: Tensor) -> str:
    if not expected.is_floating_point():
        return ""
    return f" by up to {float((expected.double() - got.double()).abs().max()):.3g}"
