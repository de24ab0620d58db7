"""What a module is made of at this moment: where each weight lies, and which code runs around it.

Reads the module's own tables, so it sees a replaced parameter, a swapped submodule or a new hook at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any

import torch
from torch import Tensor, nn

_TABLES = ("_modules", "_parameters", "_buffers", "_forward_pre_hooks", "_forward_hooks")
_DTYPE, _NBYTES, _TRAINING = attrgetter("dtype"), attrgetter("nbytes"), itemgetter("training")

Place = tuple[str, int, int, torch.Size, tuple[int, ...], torch.dtype]
"""A tensor's qualified name, address, storage size in bytes, shape, stride and dtype."""


@dataclass(frozen=True, kw_only=True)
class Contents:
    """`storages` places every parameter and buffer; `code` is all else that decides what a forward runs."""

    storages: tuple[Place, ...]
    code: tuple[Hashable, ...]


class ContentsMemo:
    """The contents of the modules of one card; looked up anew only where something has changed.

    A look at an unchanged module compares what it holds with what was seen last. It keeps the last module of
    each name alive, and its weights with it, until `forget`.
    """

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def of(self, name: str, module: nn.Module) -> Contents:
        """The present contents of the component of that name."""
        seen = self._seen.get(name)
        if seen is None or not seen.holds(module):
            seen = self._seen[name] = _look(module)
        return seen.contents

    def forget(self, name: str | None = None) -> None:
        """Let go of a component, or of all."""
        for each in list(self._seen) if name is None else [name]:
            self._seen.pop(each, None)


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """One look: the tables that were read, and what was in them."""

    module: nn.Module
    attributes: tuple[dict[str, Any], ...]
    full: tuple[dict[str, Any], ...]
    empty: tuple[dict[str, Any], ...]
    held: tuple[list[int], list[int]]
    around: tuple[Hashable, ...]
    tensors: tuple[Tensor, ...]
    layouts: tuple[list[Any], ...]
    contents: Contents

    def holds(self, module: nn.Module) -> bool:
        """Whether a further look would see the same."""
        return (
            module is self.module
            and not any(self.empty)
            and _held(self.full) == self.held
            and _around(self.attributes) == self.around
            and _layouts(self.tensors) == self.layouts
        )


def _look(module: nn.Module) -> _Seen:
    attributes = tuple(part.__dict__ for _, part in submodules(module))
    tables = [part[name] for part in attributes for name in _TABLES]
    full = tuple(table for table in tables if table)
    named, around = named_tensors(module), _around(attributes)
    tensors = tuple(named.values())
    storages = tuple(
        (name, each.data_ptr(), each.untyped_storage().nbytes(), each.shape, each.stride(), each.dtype)
        for name, each in named.items()
    )
    hooks = tuple(id(held) for table in full for held in table.values() if not isinstance(held, Tensor))
    return _Seen(
        module=module,
        attributes=attributes,
        full=full,
        empty=tuple(table for table in tables if not table),
        held=_held(full),
        around=around,
        tensors=tensors,
        layouts=_layouts(tensors),
        contents=Contents(storages=storages, code=(id(module), *hooks, *around)),
    )


def submodules(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Each part at each place where it stands, with the prefix of its names; the module itself first."""
    waiting = [("", module)]
    while waiting:
        prefix, part = waiting.pop()
        yield prefix, part
        children = part.__dict__["_modules"].items()
        waiting.extend((f"{prefix}{name}.", child) for name, child in children if child is not None)


def named_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Every tensor with memory of its own among parameters and buffers, by qualified name."""
    return {
        name: plain
        for prefix, part in submodules(module)
        for table in (part._parameters, part._buffers)
        for key, tensor in table.items()
        if tensor is not None
        for name, plain in _plain(prefix + key, tensor)
    }


def _plain(name: str, tensor: Tensor) -> Iterator[tuple[str, Tensor]]:
    """The tensors that a tensor consists of; a quantised weight has several."""
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is None:
        yield name, tensor
        return
    for inner in flatten()[0]:
        yield from _plain(f"{name}.{inner}", getattr(tensor, inner))


def _held(tables: tuple[dict[str, Any], ...]) -> tuple[list[int], list[int]]:
    """What lies in the tables, by identity, and how many in each."""
    return list(map(id, chain.from_iterable(map(dict.values, tables)))), list(map(len, tables))


def _around(attributes: tuple[dict[str, Any], ...]) -> tuple[Hashable, ...]:
    """Training mode, and a forward set on the instance, as libraries do that wrap one."""
    wrapped = [id(own["forward"]) for own in attributes if "forward" in own]
    return (*map(_TRAINING, attributes), *wrapped)


def _layouts(tensors: tuple[Tensor, ...]) -> tuple[list[Any], ...]:
    # With address, strides, bytes and dtype the shape is settled too.
    return (
        list(map(Tensor.data_ptr, tensors)),
        list(map(Tensor.stride, tensors)),
        list(map(_DTYPE, tensors)),
        list(map(_NBYTES, tensors)),
    )
