"""The plain attributes of a module's parts, found once and read again at each step. Reads; sets nothing."""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from restrike.engine.capture.contents import USUAL, classes_of, is_plain, submodules

MOST_HELD = 64
# They have no numbers of their own to look at, or are looked at elsewhere.
_CLOSED = (Tensor, nn.Module, type, types.FunctionType, types.ModuleType)
Holder = dict[Any, Any] | list[Any]


@dataclass(frozen=True)
class ModuleWatch:
    """Where the plain attributes are, each with its path."""

    places: tuple[tuple[str, Holder, Any], ...]

    def values(self) -> list[Any]:
        """What they are now; one that is gone counts as None."""
        return [_read(holder, key) for _, holder, key in self.places]

    def difference(self, before: list[Any]) -> str | None:
        """The first that differs from what `values` gave before, by its path and both values."""
        now = self.values()
        # A kind first: 1, True and 1.0 are equal, and not all values can be compared.
        if list(map(type, now)) == list(map(type, before)) and now == before:
            return None
        for (path, _, _), old, new in zip(self.places, before, now, strict=True):
            if type(old) is not type(new) or (old != new and not (old != old and new != new)):  # NaN stays
                return f"{path} was {old!r} and is now {new!r}"
        return None


def watched(module: nn.Module, name: str) -> ModuleWatch:
    """The numbers and texts of all parts, those in their own lists, dictionaries and objects, and globals."""
    own = [place for prefix, part in submodules(module) for place in _places(part, f"{name}.{prefix}")]
    return ModuleWatch((*own, *_globals(module)))


def _places(part: nn.Module, prefix: str) -> Iterator[tuple[str, Holder, Any]]:
    for key, value in part.__dict__.items():
        path = prefix + key
        if key in USUAL or isinstance(value, _CLOSED):
            continue
        if is_plain(value):
            yield path, part.__dict__, key
        elif type(value) in (dict, list):
            yield from ((f"{path}[{index!r}]", value, index) for index in _plain_in(value))
        elif isinstance(held := getattr(value, "__dict__", None), dict):
            yield from ((f"{path}.{name}", held, name) for name in _plain_in(held))


def _plain_in(value: Holder) -> list[Any]:
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    return [index for index, held in inner if is_plain(held)] if len(value) <= MOST_HELD else []


def _globals(module: nn.Module) -> Iterator[tuple[str, Holder, Any]]:
    """The numbers and texts that the methods of its classes read by name from where they were written."""
    for kind in classes_of(module):
        for method in vars(kind).values():
            if isinstance(method, types.FunctionType):
                known = method.__globals__
                names = (name for name in method.__code__.co_names if is_plain(known.get(name)))
                yield from ((f"{kind.__name__}.{method.__name__} global {n}", known, n) for n in names)


def _read(holder: Holder, key: Any) -> Any:
    if isinstance(holder, dict):
        return holder.get(key)
    return holder[key] if key < len(holder) else None
