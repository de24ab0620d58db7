"""The plain attributes of a module's parts, found once and read again at each step. Reads; sets nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from restrike.engine.capture.contents import submodules

MOST_HELD = 64
_TABLES = frozenset(nn.Module().__dict__)
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
        if now == before:
            return None
        for (path, _, _), old, new in zip(self.places, before, now, strict=True):
            if old != new and not (old != old and new != new):  # NaN stays NaN
                return f"{path} was {old!r} and is now {new!r}"
        return None


def watched(module: nn.Module, name: str) -> ModuleWatch:
    """The numbers and texts of all parts, and those in their own lists and dictionaries."""
    return ModuleWatch(
        tuple(place for prefix, part in submodules(module) for place in _places(part, f"{name}.{prefix}"))
    )


def _places(part: nn.Module, prefix: str) -> Iterator[tuple[str, Holder, Any]]:
    for key, value in part.__dict__.items():
        if key in _TABLES:
            continue
        if isinstance(value, int | float | complex | str):
            yield prefix + key, part.__dict__, key
        elif type(value) in (dict, list) and len(value) <= MOST_HELD:
            inner = value.items() if isinstance(value, dict) else enumerate(value)
            plain = [index for index, held in inner if isinstance(held, int | float | complex | str)]
            yield from ((f"{prefix}{key}[{index!r}]", value, index) for index in plain)


def _read(holder: Holder, key: Any) -> Any:
    if isinstance(holder, dict):
        return holder.get(key)
    return holder[key] if key < len(holder) else None
