"""A call as a module: what the engine calls of a denoiser, with its tensors in the order of their names.

Holds the denoiser by reference, or a shadow of it that has its shapes and none of its values.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from restrike.mint.warm import Call

COMPONENT = "component"
"""Under this name the denoiser lies in the module, so constants are called `component.blocks.0...`."""


class WrappedCall(nn.Module):
    """Takes the tensors in the order of `names`, returns the answer of `call(component, tensors)`."""

    def __init__(self, component: nn.Module, call: Call, names: tuple[str, ...]) -> None:
        super().__init__()
        self.component = component
        self._call = call
        self._names = names

    def forward(self, *tensors: Tensor) -> Tensor:
        return self._call(self.component, dict(zip(self._names, tensors, strict=True)))


def constants_of(module: nn.Module) -> dict[str, Tensor]:
    """All parameters and buffers of a wrapped denoiser by the names that a cell binds; shared, not copied."""
    named = {**dict(module.named_parameters(remove_duplicate=False)), **_buffers(module)}
    return {f"{COMPONENT}.{name}": _bare(value) for name, value in named.items()}


def _bare(value: Tensor) -> Tensor:
    """The tensor without its gradient; one of a kind of its own as it is, so that it shows."""
    return value.detach() if type(value) in (Tensor, nn.Parameter) else value


def _buffers(module: nn.Module) -> Mapping[str, Tensor]:
    return dict(module.named_buffers(remove_duplicate=False))


def shadow(module: nn.Module) -> nn.Module:
    """The module without its weights: memory of their size is reserved, and what is large is never written.

    What is compiled from it cannot hold a value of theirs. Tied weights stay tied. Small ones hold a number
    that no proof against the real weights survives.
    """
    memo: dict[int, Any] = {id(value): _unwritten(value) for value in _tensors(module)}
    return copy.deepcopy(module, memo).eval().requires_grad_(False)


def _tensors(module: nn.Module) -> list[Tensor]:
    return [*module.parameters(), *module.buffers()]


def _unwritten(value: Tensor) -> Tensor:
    empty = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    if value.is_floating_point() and empty.numel() < 1024:
        empty.fill_(7.0)
    return nn.Parameter(empty, requires_grad=False) if isinstance(value, nn.Parameter) else empty
