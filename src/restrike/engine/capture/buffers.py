"""The memory around a graph: inputs at fixed addresses, outputs as copies. Computes nothing.

A tensor that repeats itself (stride 0) is kept once and shown in its full shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from restrike.loops.contract import Tensors


class StaticInputs:
    """Buffers of the layout of a step's inputs; their addresses never change."""

    def __init__(self, like: Tensors) -> None:
        self.tensors: dict[str, Tensor] = {name: _buffer(each) for name, each in like.items()}
        self._targets = [once(each) for each in self.tensors.values()]

    @property
    def bytes(self) -> int:
        """What they hold."""
        return held_bytes(self.tensors.values())

    def fill(self, inputs: Tensors) -> None:
        """Copy a step's inputs in."""
        _copy(self._targets, [once(inputs[name]) for name in self.tensors])


def copies(tensors: Tensors) -> dict[str, Tensor]:
    """The same values in new memory, in the same layout where it can be kept."""
    fresh = {name: torch.empty_like(each) for name, each in tensors.items()}
    _copy(list(fresh.values()), list(tensors.values()))
    return fresh


def _copy(targets: list[Tensor], sources: list[Tensor]) -> None:
    # One launch for all on a GPU.
    if targets:
        torch._foreach_copy_(targets, sources)  # pyright: ignore[reportPrivateImportUsage]


def once(tensor: Tensor) -> Tensor:
    """A tensor without the repeats of its dimensions of stride 0."""
    strides = tensor.stride()
    if 0 not in strides:
        return tensor
    for dimension, (size, stride) in enumerate(zip(tensor.shape, strides, strict=True)):
        if stride == 0 and size > 1:
            tensor = tensor.narrow(dimension, 0, 1)
    return tensor


def held_bytes(tensors: Iterable[Tensor]) -> int:
    """The bytes of all memory that the tensors lie in, each storage once."""
    storages = {id(storage): storage for storage in (each.untyped_storage() for each in tensors)}
    return sum(storage.nbytes() for storage in storages.values())


def shared(handed: Tensors, held: Mapping[str, Tensor]) -> tuple[str, str] | None:
    """The names of an output and of a held tensor that lie in the same memory, if there are such."""
    owners = {id(each.untyped_storage()): name for name, each in held.items()}
    for name, each in handed.items():
        if id(each.untyped_storage()) in owners:
            return name, owners[id(each.untyped_storage())]
    return None


def _buffer(like: Tensor) -> Tensor:
    single = once(like)
    buffer = torch.empty_strided(single.shape, single.stride(), dtype=like.dtype, device=like.device)
    return buffer.expand(like.shape)
