"""What differs between two decoded values, by dotted place, each side short enough for one line.

Every "why did this miss" answer comes from here; nothing here decides whether two keys are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from restrike.keys.encoding import encode
from restrike.keys.unkeyable import Step, dotted
from restrike.keys.values import ArrayContent, Record, Ref

_SHOWN_CHARACTERS = 60
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Difference:
    """One place at which two values differ, and what stands there in each (`absent` where nothing does)."""

    path: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}: {self.before} -> {self.after}"


def differences(before: Mapping[str, object], after: Mapping[str, object]) -> tuple[Difference, ...]:
    """Every innermost place at which two decoded mappings differ: entries by name, items by index."""
    return tuple(_entries((), before, after))


def _compare(steps: tuple[Step, ...], before: Any, after: Any) -> Iterator[Difference]:
    if type(before) is type(after):
        if isinstance(before, dict):
            yield from _entries(steps, before, after)
            return
        if isinstance(before, (list, tuple)):
            yield from _entries(steps, _numbered(before), _numbered(after))
            return
        if isinstance(before, Record) and before.name == after.name:
            yield from _entries(steps, before.fields, after.fields)
            return
    if before is _ABSENT or after is _ABSENT or encode(before) != encode(after):
        yield Difference(dotted(steps), *_apart(_shown(before), _shown(after)))


def _numbered(items: list[object] | tuple[object, ...]) -> dict[int, object]:
    return dict(enumerate(items))


def _entries(
    steps: tuple[Step, ...], before: Mapping[Any, object], after: Mapping[Any, object]
) -> Iterator[Difference]:
    for step in sorted({*before, *after}):
        yield from _compare((*steps, step), before.get(step, _ABSENT), after.get(step, _ABSENT))


def _shown(value: Any) -> str:
    if value is _ABSENT:
        return "absent"
    if isinstance(value, Ref):
        return f"{value.of} {value.digest.short}"
    if isinstance(value, ArrayContent):
        return f"{value.library} {value.dtype} {list(value.shape)} {value.sha256.short}"
    if isinstance(value, Record):
        return f"{value.name} {_shown(value.fields)}"
    if isinstance(value, dict):
        named = cast(dict[str, object], value)
        return "{" + ", ".join(f"{name!r}: {_shown(entry)}" for name, entry in named.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_shown, cast(list[object], value))) + "]"
    if isinstance(value, tuple):
        return "(" + "".join(f"{_shown(item)}, " for item in value).removesuffix(" ") + ")"
    if type(value) is int and value.bit_length() > 1024:
        return hex(value)  # Python refuses to write integers of thousands of decimal digits
    return repr(value)


def _apart(before: str, after: str) -> tuple[str, str]:
    """Both texts cut to one line, around the first character that differs."""
    same = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), None)
    start = max(0, (min(len(before), len(after)) if same is None else same) - _SHOWN_CHARACTERS // 3)
    if max(len(before), len(after)) <= _SHOWN_CHARACTERS:
        return before, after
    return _window(before, start), _window(after, start)


def _window(text: str, start: int) -> str:
    end = start + _SHOWN_CHARACTERS
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
