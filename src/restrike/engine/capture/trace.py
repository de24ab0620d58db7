"""The operations of one eager step, as a dispatch mode sees them, and what among them no graph could hold.

Watches one run; changes nothing of what it computes and keeps no tensor of it.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

COLLECTIVES = ("c10d", "_c10d_functional", "c10d_functional", "_dtensor", "symm_mem")
# What reads a tensor on the host without being marked so: a branch on it; `tolist` and `numpy`.
_HOST_READS = ("aten::is_nonzero", "aten::resolve_neg", "aten::_local_scalar_dense", "aten::item")

# What a tensor made of host values, such as the 0 of `x[:, 0] = 0`, comes in by.
_FRESH = "aten::lift_fresh"
MOST_LITERAL = 64


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One call: its name and, by argument, the plain values it was given; tensors by shape and dtype."""

    name: str
    arguments: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
class Trace:
    """What one step did. `faults` are what makes it uncapturable, in order, each as one clause."""

    operations: tuple[Operation, ...]
    faults: tuple[str, ...]
    produced_bytes: int
    peak_bytes: int

    def difference(self, other: Trace) -> str | None:
        """Where a later step departs from this one: a host value that changed, or another operation."""
        for index, (one, two) in enumerate(zip(self.operations, other.operations, strict=False)):
            if one != two:
                return f"operation {index + 1}, {_departure(one, two)}"
        if len(self.operations) != len(other.operations):
            return f"one step ran {len(self.operations)} operations, the next {len(other.operations)}"
        return None


def _departure(one: Operation, two: Operation) -> str:
    if one.name != two.name:
        return f"was {one.name} and is now {two.name}: the step branches on the host"
    was, now = dict(one.arguments), dict(two.arguments)
    name = next(name for name in (*now, *was) if was.get(name) != now.get(name))
    return f"{one.name}, got {name} {was.get(name)!r} and then {now.get(name)!r}"


class Inspection(TorchDispatchMode):
    """Records the operations of a step that runs inside it.

    `known` are the tensors that the step may read, by the name to show: its inputs (which it must not write
    either), parameters and buffers.
    """

    def __init__(self, known: Mapping[str, Tensor]) -> None:
        super().__init__()
        self._given = {id(each.untyped_storage()): name for name, each in known.items()}
        self._kept = [each.untyped_storage() for each in known.values()]
        self._meter = _Meter()
        self._operations: list[Operation] = []
        self._faults: dict[str, None] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Nothing is compiled under it, and the wrapper that this avoids imports a compiler.
        return False

    def trace(self) -> Trace:
        """What was seen."""
        return Trace(
            operations=tuple(self._operations),
            faults=tuple(self._faults),
            produced_bytes=self._meter.produced,
            peak_bytes=self._meter.peak,
        )

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        named = _named(func, args, kwargs)
        shown = _values if func._schema.name == _FRESH else _plain
        arguments = tuple((name, shown(value)) for name, value in named.items())
        self._operations.append(Operation(name=str(func), arguments=arguments))
        self._judge(func, named)
        drawing = _generators(named) if torch.Tag.nondeterministic_seeded in func.tags else None
        result = func(*args, **kwargs)
        if drawing is not None and drawing.moved():
            self._fault(f"{func} draws random numbers inside the step")
        self._take(func, named, result)
        return result

    def _fault(self, clause: str) -> None:
        self._faults[clause] = None

    def _judge(self, func: Any, named: Mapping[str, Any]) -> None:
        """What can be told of a call before it runs."""
        name = func._schema.name
        if func.namespace in COLLECTIVES:
            self._fault(f"{func} is a collective")
        elif name in _HOST_READS or torch.Tag.data_dependent_output in func.tags:
            self._fault(f"{func} reads a tensor on the host")
        elif torch.Tag.dynamic_output_shape in func.tags and not _is_plain_index(name, named):
            self._fault(f"{func} gives a result whose size depends on data")
        elif name == _FRESH and not all(map(_is_literal, named.values())):
            self._fault("a tensor is made from host values inside the step")
        written = {each.name for each in func._schema.arguments if _writes(each)}
        for argument, value in named.items():
            for tensor in _tensors(value):
                self._read(func, argument, tensor, writes=argument in written)

    def _read(self, func: Any, argument: str, tensor: Tensor, *, writes: bool) -> None:
        storage = id(tensor.untyped_storage())
        if storage in self._given:
            if writes:
                self._fault(f"{func} writes into {self._given[storage]}")
        elif storage not in self._meter and tensor.numel() and func._schema.name != _FRESH:
            shape = "x".join(map(str, tensor.shape)) or "0-d"
            self._fault(
                f"{func} reads as {argument} a tensor ({shape}, {_short(tensor.dtype)}) that is neither an "
                "input, nor a parameter or buffer, nor made inside the step"
            )

    def _take(self, func: Any, named: Mapping[str, Any], result: Any) -> None:
        results = list(_tensors(result))
        places = {each.device for value in named.values() for each in _tensors(value)}
        for tensor in results:
            if id(tensor.untyped_storage()) not in self._given:
                self._meter.add(tensor)
            if places and tensor.device not in places and tensor.device.type != "meta":
                self._fault(f"{func} copies to {tensor.device}")
        if not results and any(isinstance(leaf, bool | int | float) for leaf in tree_leaves(result)):
            self._fault(f"{func} reads a tensor on the host")


@dataclass
class _Meter:
    """The storages made inside the step that are still alive, and the bytes that they took."""

    produced: int = 0
    peak: int = 0
    _held: int = 0
    _alive: dict[int, int] = field(default_factory=dict)

    def add(self, tensor: Tensor) -> None:
        """Count a result's storage, once, until it is let go."""
        storage = tensor.untyped_storage()
        if id(storage) in self._alive:
            return
        size = storage.nbytes()
        self._alive[id(storage)] = size
        self.produced += size
        self._held += size
        self.peak = max(self.peak, self._held)
        weakref.finalize(storage, self._gone, id(storage)).atexit = False

    def _gone(self, storage: int) -> None:
        self._held -= self._alive.pop(storage, 0)

    def __contains__(self, storage: int) -> bool:
        return storage in self._alive


class _Generators:
    """The states of the generators that a call could draw from."""

    def __init__(self, generators: Iterable[torch.Generator]) -> None:
        self._before = [(each, each.get_state()) for each in generators]

    def moved(self) -> bool:
        """Whether one of them was drawn from since."""
        return any(not torch.equal(each.get_state(), state) for each, state in self._before)


def _generators(named: Mapping[str, Any]) -> _Generators:
    given = [value for value in named.values() if isinstance(value, torch.Generator)]
    kinds = {each.device for value in named.values() for each in _tensors(value)} | {named.get("device")}
    on_cuda = any(kind is not None and torch.device(kind).type == "cuda" for kind in kinds)
    usual = torch.cuda.default_generators if on_cuda else (torch.default_generator,)
    return _Generators(given or usual)


def _named(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    names = (each.name for each in func._schema.arguments)
    return dict(zip(names, args, strict=False)) | kwargs


def _writes(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def _is_plain_index(name: str, named: Mapping[str, Any]) -> bool:
    """Whether an index is by positions alone, which settles the size; by a mask it does not."""
    masks = (torch.bool, torch.uint8)
    return name == "aten::index" and all(each.dtype not in masks for each in _tensors(named.get("indices")))


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _tensors(each)


def _plain(value: Any) -> Any:
    """An argument without its memory: what two equal calls have in common."""
    if isinstance(value, Tensor):
        return (tuple(value.shape), value.stride(), value.dtype, value.device)
    if isinstance(value, tuple | list):
        return tuple(map(_plain, value))
    return value if not isinstance(value, torch.Generator) else "generator"


def _is_literal(value: Any) -> bool:
    """Whether a tensor is as good as a number in the code: small, and where no copy brings it to a device."""
    return isinstance(value, Tensor) and value.device.type == "cpu" and value.numel() <= MOST_LITERAL


def _values(value: Any) -> Any:
    return (str(value.dtype), str(value.tolist())) if _is_literal(value) else _plain(value)


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
