"""What a module is made of at this moment: where each weight lies, and which code runs around it.

Reads the module's own tables, so it sees a replaced parameter, a swapped submodule or a new hook at once, and
so another function or object among its attributes, or on its class. Numbers and texts are not looked at here.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as modules

_TABLES = ("_modules", "_parameters", "_buffers", "_forward_pre_hooks", "_forward_hooks")
_EVERYWHERE = (modules._global_forward_pre_hooks, modules._global_forward_hooks)
USUAL = frozenset(nn.Module().__dict__)
"""The attributes that every module has."""
_DTYPE, _NBYTES, _TRAINING = attrgetter("dtype"), attrgetter("nbytes"), itemgetter("training")

Place = tuple[str, int, int, torch.Size, tuple[int, ...], torch.dtype]
"""A tensor's qualified name, address, storage size in bytes, shape, stride and dtype."""


class Same:
    """Equal only to one of the very same object, which it keeps: no other one comes to have its identity."""

    __slots__ = ("_held",)

    def __init__(self, held: object) -> None:
        self._held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self._held is other._held

    def __hash__(self) -> int:
        return id(self._held)


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
    """One look: the tables that were read, and what was in them, which it keeps."""

    parts: tuple[nn.Module, ...]
    attributes: tuple[dict[str, Any], ...]
    full: tuple[dict[str, Any], ...]
    empty: tuple[dict[str, Any], ...]
    held: tuple[list[int], list[int]]
    objects: _Objects
    around: tuple[Hashable, ...]
    tensors: tuple[Tensor, ...]
    layouts: tuple[list[Any], ...]
    contents: Contents
    kept: tuple[object, ...]

    def holds(self, module: nn.Module) -> bool:
        """Whether a further look would see the same."""
        return (
            module is self.parts[0]
            and not any(self.empty)
            and _held(self.full) == self.held
            and _around(self.parts, self.attributes) == self.around
            and self.objects.hold()
            and _layouts(self.tensors) == self.layouts
        )


class _Objects:
    """The attributes of a module's parts and of their classes that are neither numbers nor texts."""

    def __init__(self, attributes: tuple[dict[str, Any], ...], classes: tuple[type, ...]) -> None:
        self._own = tuple(
            (own, name)
            for own in attributes
            for name, value in own.items()
            if name not in USUAL and not is_plain(value)
        )
        self._classes = tuple(map(vars, classes))
        self._seen = self._now()
        self._identities = list(map(id, self._seen))

    def _now(self) -> list[object]:
        # A tensor that is read from an attribute is refused as such; which one it is does not matter.
        values = (own.get(name) for own, name in self._own)
        objects = [Tensor if isinstance(value, Tensor) else value for value in values]
        return [*objects, *chain.from_iterable(each.values() for each in self._classes)]

    def hold(self) -> bool:
        """Whether all are the very same as before."""
        return list(map(id, self._now())) == self._identities

    def named(self) -> Iterator[Hashable]:
        """All of them, by identity, those of the parts with their names."""
        yield from (name for _, name in self._own)
        yield from map(Same, self._seen)


def is_plain(value: object) -> bool:
    """Whether it is one of the values that are compared as such."""
    return isinstance(value, int | float | complex | str)


def _look(module: nn.Module) -> _Seen:
    parts = tuple(part for _, part in submodules(module))
    attributes = tuple(part.__dict__ for part in parts)
    tables = [*(part[name] for part in attributes for name in _TABLES), *_EVERYWHERE]
    full = tuple(table for table in tables if table)
    named, around = named_tensors(module), _around(parts, attributes)
    tensors, objects = tuple(named.values()), _Objects(attributes, classes_of(module))
    storages = tuple(
        (name, each.data_ptr(), each.untyped_storage().nbytes(), each.shape, each.stride(), each.dtype)
        for name, each in named.items()
    )
    kept = tuple(held for table in full for held in table.values())
    hooks = (Same(held) for held in kept if not isinstance(held, Tensor))
    names = (tuple(name for name in own if name not in USUAL) for own in attributes)
    return _Seen(
        parts=parts,
        attributes=attributes,
        full=full,
        empty=tuple(table for table in tables if not table),
        held=_held(full),
        objects=objects,
        around=around,
        tensors=tensors,
        layouts=_layouts(tensors),
        contents=Contents(storages=storages, code=(Same(module), *hooks, *around, *names, *objects.named())),
        kept=kept,
    )


def classes_of(module: nn.Module) -> tuple[type, ...]:
    """The classes that the parts of a module are made of, each once, down to the one of all modules."""
    kinds = dict.fromkeys(type(part) for _, part in submodules(module))
    above = (each for kind in kinds for each in kind.__mro__)
    return tuple(dict.fromkeys(each for each in above if each not in nn.Module.__mro__))


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


def _around(parts: tuple[nn.Module, ...], attributes: tuple[dict[str, Any], ...]) -> tuple[Hashable, ...]:
    """Class, training mode and number of attributes of each part; a wrapped forward is an attribute."""
    return (*map(type, parts), *map(_TRAINING, attributes), *map(len, attributes))


def _layouts(tensors: tuple[Tensor, ...]) -> tuple[list[Any], ...]:
    # With address, strides, bytes and dtype the shape is settled too.
    return (
        list(map(Tensor.data_ptr, tensors)),
        list(map(Tensor.stride, tensors)),
        list(map(_DTYPE, tensors)),
        list(map(_NBYTES, tensors)),
    )
