"""The entries of a `for_each`: each with a name of its own, so that an insert moves no other.

A name is made of the entry alone, never of its position.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from restrike.workflow import outcomes
from restrike.workflow.findings import Place
from restrike.workflow.graph import FileInput, Input
from restrike.workflow.outcomes import NOTHING, Unknown
from restrike.workflow.references import ALL, Result, parse
from restrike.workflow.resolving import Entry, Resolver

MAX_MEMBERS = 1000
_MAX_NAME = 60
_MARKS = frozenset("[]/|*")


@dataclass(frozen=True, kw_only=True)
class _Axis:
    """Entries by name; `named` says that the author, or another step, gave the names."""

    entries: Mapping[str, Any]
    named: bool


def entries_of(written: Any, resolver: Resolver, place: Place) -> tuple[Entry, ...]:
    """The entries that a `for_each` is written for, in their order; none when it has findings."""
    if isinstance(written, Mapping) and len(written) == 1 and next(iter(written)) in ("zip", "product"):
        ((how, axes),) = written.items()
        axis = _joined(how, axes, resolver, (*place, how))
    else:
        axis = _axis(written, resolver, place)
    return () if axis is None else tuple(Entry(name=n, value=v) for n, v in axis.entries.items())


def member_name(entry: Any) -> str:
    """The name of an entry of a list: its text, its own `name`, its file's name, or a digest of it."""
    if isinstance(entry, FileInput):
        return cleaned(entry.path.name)
    if isinstance(entry, Input):
        return cleaned(f"{entry.action}{'' if entry.item is None else f'-{entry.item}'}")
    if isinstance(entry, Mapping) and isinstance(entry.get("name"), str):
        return cleaned(entry["name"])
    if isinstance(entry, Mapping | list):
        text = json.dumps(entry, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:8]
    return cleaned(entry if isinstance(entry, str) else json.dumps(entry))


def cleaned(text: str) -> str:
    """A text as a member's name: short, on one line and without the marks of a reference."""
    kept = "".join(c if c.isprintable() and c not in _MARKS else "-" for c in " ".join(text.split()))
    kept = kept[:_MAX_NAME].strip()
    if kept == text and kept:
        return kept
    # Two texts that are cleaned to one are still two entries.
    mark = hashlib.sha256(text.encode()).hexdigest()[:6]
    return f"{kept[: _MAX_NAME - 7]}-{mark}".strip("- ")


def _axis(written: Any, resolver: Resolver, place: Place) -> _Axis | None:
    if isinstance(written, str):
        found = _of_step(written, resolver, place)
        if found is not None:
            return found
        value = resolver.resolve(written, place)
        if value is NOTHING:
            return None
    else:
        value = written
    if isinstance(value, Input | FileInput) or not isinstance(value, list | Mapping):
        kind = "known only after it ran" if isinstance(value, Input) else "no list and no table"
        resolver.findings.add(
            place, f"its entries are {kind}; for_each takes a list, a table or a for_each step"
        )
        return None
    if not _counts(len(value), resolver, place):
        return None
    # A variable's value is resolved already; what is written here is not.
    entries = value if isinstance(written, str) else resolver.resolve(value, place)
    if isinstance(entries, Mapping):
        return _Axis(entries={cleaned(name): entry for name, entry in entries.items()}, named=True)
    return _unlike([(member_name(entry), entry) for entry in entries], resolver, place)


def _of_step(written: str, resolver: Resolver, place: Place) -> _Axis | None:
    """The members of another step; None when the text refers to none, or not to all of it."""
    try:
        reference = parse(written)
    except ValueError:
        return None
    if not isinstance(reference, Result) or reference.item not in (None, ALL):
        return None
    outcome = resolver.steps.get(reference.step)
    if outcome is None or isinstance(outcome, Unknown):
        return None
    members = outcomes.names_of(outcome)
    if members is None or not _counts(len(members), resolver, place):
        return None
    rest = Result(reference.step, None, reference.field)
    entries = {
        name: outcomes.whole(member, rest, place, resolver.findings) for name, member in members.items()
    }
    return _Axis(entries=entries, named=True)


def _joined(how: str, axes: Any, resolver: Resolver, place: Place) -> _Axis | None:
    if not isinstance(axes, Mapping) or not axes:
        resolver.findings.add(place, f"{how} takes a mapping of names to lists or tables")
        return None
    found = {name: _axis(written, resolver, (*place, name)) for name, written in axes.items()}
    whole = {name: axis for name, axis in found.items() if axis is not None}
    if len(whole) < len(found):
        return None
    return _product(whole, resolver, place) if how == "product" else _zip(whole, resolver, place)


def _product(axes: Mapping[str, _Axis], resolver: Resolver, place: Place) -> _Axis | None:
    if not _counts(math.prod(len(axis.entries) for axis in axes.values()), resolver, place):
        return None
    named = [
        ("-".join(name for name, _ in chosen), dict(zip(axes, (value for _, value in chosen), strict=True)))
        for chosen in itertools.product(*(axis.entries.items() for axis in axes.values()))
    ]
    return _unlike(named, resolver, place)


def _zip(axes: Mapping[str, _Axis], resolver: Resolver, place: Place) -> _Axis | None:
    """Two tables, or a table and the members of a step, by name; lists by position."""
    if not any(axis.named for axis in axes.values()):
        lengths = {name: len(axis.entries) for name, axis in axes.items()}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            resolver.findings.add(place, f"lists in step have the same length: {listed}")
            return None
        rows = zip(*(axis.entries.items() for axis in axes.values()), strict=True)
        named = [
            ("-".join(name for name, _ in row), dict(zip(axes, (value for _, value in row), strict=True)))
            for row in rows
        ]
        return _unlike(named, resolver, place)
    first = next(axis for axis in axes.values() if axis.named).entries
    for name, axis in axes.items():
        lacks, more = sorted(first.keys() - axis.entries.keys()), sorted(axis.entries.keys() - first.keys())
        if lacks or more:
            said = f"lacks {', '.join(lacks)}" if lacks else f"has {', '.join(more)} besides"
            resolver.findings.add((*place, name), f"tables in step have the same names; this {said}")
            return None
    return _Axis(
        entries={name: {axis: axes[axis].entries[name] for axis in axes} for name in first}, named=True
    )


def _unlike(named: list[tuple[str, Any]], resolver: Resolver, place: Place) -> _Axis | None:
    seen: dict[str, int] = {}
    for index, (name, _) in enumerate(named):
        if name in seen:
            hint = "write a table to name them, or give each a `name`"
            resolver.findings.add(place, f"entries {seen[name]} and {index} are both called '{name}'; {hint}")
            return None
        seen[name] = index
    return _Axis(entries=dict(named), named=False)


def _counts(count: int, resolver: Resolver, place: Place) -> bool:
    if count == 0:
        resolver.findings.add(place, "has no entries; a for_each has at least one")
    if count > MAX_MEMBERS:
        resolver.findings.add(place, f"has {count} entries; a for_each has at most {MAX_MEMBERS}")
    return 0 < count <= MAX_MEMBERS
