"""The host values that a step can see beside its tensors: closures, partials, bound objects.

A graph freezes such a value, so one that differs between two steps of one signature makes it wrong. The
look is bounded, reads nothing of a tensor and calls nothing of the objects it passes.
"""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum
from numbers import Number
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from restrike.engine.kernels.selection import Op

MOST_OBJECTS = 512
MOST_ARRAY_BYTES = 4096
Parts = Callable[[Any], Iterable[tuple[str, Any]]]
Trail = tuple[Any, str] | None
"""The trail of the holder, and the last part of the path; written out only when it has to be told."""


class TooMuch(Exception):
    """More objects hang on a step than can be watched at every step."""


class HostValues:
    """The plain values that could be reached from some roots, in a fixed order, each with its path."""

    def __init__(self, roots: Mapping[str, Any]) -> None:
        """Look through the roots; raises TooMuch beyond `MOST_OBJECTS` objects."""
        self._trails: list[Trail] = []
        self._values: list[Hashable] = []
        # All of it in one row, the ways to the values too: two looks are compared as wholes.
        self._row: list[Hashable] = []
        self._read(roots)

    def difference(self, before: HostValues) -> str | None:
        """The first value that differs from an earlier look, by its path and both; None if none does."""
        if self._row == before._row:
            return None
        was, now = before._named(), self._named()
        for path in (*now, *was):
            if path not in was:
                return f"{path} appeared, with {_shown(now[path])}"
            if path not in now:
                return f"{path} is gone, which was {_shown(was[path])}"
            if was[path] != now[path]:
                return f"{path} was {_shown(was[path])} and is now {_shown(now[path])}"
        return "what hangs on the step is of other kinds"

    def _read(self, roots: Mapping[str, Any]) -> None:
        waiting: list[tuple[Trail, str, Any]] = [(None, name, root) for name, root in roots.items()]
        # Kept, so that no identity is given away twice during the look.
        seen: dict[int, Any] = {}
        while waiting:
            above, part, value = waiting.pop()
            parts = _parts_of(value.__class__)
            self._row.append(part)
            if parts is None:
                self._trails.append((above, part))
                self._values.append(_distinct(value))
                self._row.append(self._values[-1])
            elif parts is not _nothing and id(value) not in seen:
                seen[id(value)] = value
                self._row.append(value.__class__)
                trail = (above, part)
                if len(seen) > MOST_OBJECTS:
                    raise TooMuch(f"too much hangs on the step to be watched, at {_path(trail)}")
                waiting.extend([(trail, name, held) for name, held in parts(value)])

    def _named(self) -> dict[str, Hashable]:
        return dict(zip(map(_path, self._trails), self._values, strict=True))


def _path(trail: Trail) -> str:
    names: list[str] = []
    while trail is not None:
        trail, name = trail
        names.append(name)
    return "".join(reversed(names))


def _distinct(value: Any) -> Hashable:
    # 1, True and 1.0 are equal, and so are 0.0 and -0.0, while NaN is not: none of that fits here.
    if value.__class__ is str or value is None:
        return value
    if isinstance(value, Number) and not isinstance(value, int):
        return (value.__class__, repr(value))
    return (value.__class__, value)


def _shown(value: Hashable) -> str:
    if isinstance(value, tuple):
        kind, held = value
        return held if issubclass(kind, Number) and isinstance(held, str) else repr(held)
    return repr(value)


# NumPy's scalars are numbers too.
_PLAIN = (Number, str, bytes, range, slice, types.NoneType, Enum, torch.dtype, torch.device)
# Tensors are judged by the operations that read them, modules by their own attributes; an op chooses its
# kernel once a process, which the runs before a capture have it do.
_OPAQUE = (Tensor, nn.Module, Op, type, types.ModuleType, types.BuiltinFunctionType, torch.Generator)


def _nothing(value: Any) -> Iterable[tuple[str, Any]]:
    return ()


@functools.lru_cache(maxsize=512)
def _parts_of(kind: type) -> Parts | None:
    """How an object of this type is looked into; None for a plain value."""
    if issubclass(kind, _PLAIN):
        return None
    if issubclass(kind, _OPAQUE):
        return _nothing
    return next((parts for known, parts in _KINDS if issubclass(kind, known)), _of_object(kind))


def _of_object(kind: type) -> Parts:
    call = kind.__dict__.get("__call__")
    own = [("", call)] if isinstance(call, types.FunctionType) else []
    slots = tuple(f"{name}" for name in getattr(kind, "__slots__", ()))
    if is_dataclass(kind) and not own and not slots:
        return _of_attributes

    def parts(value: Any) -> Iterator[tuple[str, Any]]:
        yield from _of_attributes(value)
        yield from ((f".{name}", getattr(value, name, None)) for name in slots)
        yield from own

    return parts


def _of_attributes(value: Any) -> Iterable[tuple[str, Any]]:
    return [(f".{name}", held) for name, held in getattr(value, "__dict__", {}).items()]


def _of_function(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f" closure {name}", cell.cell_contents
        except ValueError:  # a variable that is not set yet
            continue
    yield from ((f" default {index}", value) for index, value in enumerate(function.__defaults__ or ()))
    yield from ((f" default {name}", value) for name, value in (function.__kwdefaults__ or {}).items())
    known = function.__globals__
    numbers = ((name, known.get(name)) for name in code.co_names)
    yield from ((f" global {n}", value) for n, value in numbers if isinstance(value, int | float | complex))


def _of_method(method: types.MethodType) -> list[tuple[str, Any]]:
    return [(".self", method.__self__), ("", method.__func__)]


def _of_partial(call: functools.partial[Any]) -> Iterator[tuple[str, Any]]:
    yield "", call.func
    yield from ((f".args[{index}]", value) for index, value in enumerate(call.args))
    yield from ((f".keywords[{name!r}]", value) for name, value in call.keywords.items())


def _of_mapping(value: Mapping[Any, Any]) -> list[tuple[str, Any]]:
    return [(f"[{key!r}]", held) for key, held in value.items()]


def _of_sequence(value: Any) -> list[tuple[str, Any]]:
    return [(f"[{index}]", held) for index, held in enumerate(value)]


def _of_array(value: Any) -> list[tuple[str, Any]]:
    # A larger one comes into a step as a tensor from outside, which inspection finds.
    return [("", value.tobytes()), (" shape", value.shape)] if value.nbytes <= MOST_ARRAY_BYTES else []


def _of_set(value: Any) -> list[tuple[str, Any]]:
    return [("{}", tuple(sorted(map(repr, value))))]


_KINDS: tuple[tuple[Any, Parts], ...] = (
    (types.FunctionType, _of_function),
    (types.MethodType, _of_method),
    (functools.partial, _of_partial),
    (Mapping, _of_mapping),
    ((tuple, list, deque), _of_sequence),
    (np.ndarray, _of_array),
    ((set, frozenset), _of_set),
)
