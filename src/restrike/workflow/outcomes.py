"""What a step gives to those that read it: one value, members by name, or nothing that is known.

It turns a reference to a step into inputs, and says at once what is known to be wrong with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from restrike.workflow.findings import Findings, Place, no_such
from restrike.workflow.graph import Input
from restrike.workflow.references import ALL, Result


@dataclass(frozen=True, kw_only=True)
class Yield:
    """What is known of a value before it exists.

    `fields` are the parts that it (or each of its items) has, None when not known; `items` is how many items
    it has, 0 when it is no list, None when not known.
    """

    fields: tuple[str, ...] | None = None
    items: int | None = None


@dataclass(frozen=True, kw_only=True)
class One:
    """The value of one action, or one item of it."""

    action: str
    gives: Yield
    item: int | None = None


@dataclass(frozen=True, kw_only=True)
class Many:
    """The members of a `for_each`, in the order of its entries."""

    members: Mapping[str, Outcome]


@dataclass(frozen=True)
class Unknown:
    """The outcome of a step that has findings of its own: nothing more is said of what reads it."""


Outcome = One | Many | Unknown
_MAX_DIGITS = 9
NOTHING = Input(action="")
"""Stands for a value whose step has findings; a graph with one is never handed out."""


def read(outcome: Outcome, asked: Result, place: Place, findings: Findings) -> Any:
    """The inputs that a reference stands for: one, or lists of them."""
    match outcome:
        case Unknown():
            return NOTHING
        case One():
            return _of_one(outcome, asked, place, findings)
        case Many():
            return _of_many(outcome, asked, place, findings)


def names_of(outcome: Outcome) -> Mapping[str, Outcome] | None:
    """The members of an outcome by name, as far as it is known to have some; items are named by number."""
    if isinstance(outcome, Many):
        return outcome.members
    if isinstance(outcome, One) and outcome.gives.items:
        item = Yield(fields=outcome.gives.fields, items=0)
        count = outcome.gives.items
        return {str(n): One(action=outcome.action, gives=item, item=n) for n in range(count)}
    return None


def _of_one(outcome: One, asked: Result, place: Place, findings: Findings) -> Input:
    items, item = outcome.gives.items, outcome.item
    if asked.item == ALL:
        if items == 0:
            findings.add(place, f"step '{asked.step}' gives one value, no list; leave [*] out")
    elif asked.item is not None:
        item = _index(outcome, asked, asked.item, place, findings)
    if asked.field is not None:
        listed = item is None and items != 0
        if listed and items is not None:
            findings.add(
                place, f"step '{asked.step}' gives {items} items; say which, as in [0].{asked.field}"
            )
        fields = outcome.gives.fields
        if fields is not None and asked.field not in fields:
            findings.add(place, no_such("part", asked.field, fields))
    return Input(action=outcome.action, item=item, field=asked.field)


def _index(outcome: One, asked: Result, text: str, place: Place, findings: Findings) -> int | None:
    items = outcome.gives.items
    if not _is_number(text):
        findings.add(
            place, f"step '{asked.step}' has no for_each, so no member '{text}'; an item is a number"
        )
        return None
    if items is not None and int(text) >= items:
        has = "one value, no list" if items == 0 else f"{items} items, 0 to {items - 1}"
        findings.add(place, f"step '{asked.step}' gives {has}; there is no item {text}")
    return int(text)


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= _MAX_DIGITS


def _of_many(outcome: Many, asked: Result, place: Place, findings: Findings) -> Any:
    rest = Result(asked.step, None, asked.field)
    names = list(outcome.members)
    if asked.item is None:
        shown = ", ".join(names[:20])
        findings.add(place, f"step '{asked.step}' is a for_each: say [*] for all, or one of [{shown}]")
        return NOTHING
    if asked.item == ALL:
        return [whole(member, rest, place, findings) for member in outcome.members.values()]
    name = asked.item
    if name not in outcome.members and _is_number(name) and int(name) < len(names):
        name = names[int(name)]
    if name not in outcome.members:
        findings.add(place, no_such(f"member of step '{asked.step}'", asked.item, names))
        return NOTHING
    return whole(outcome.members[name], rest, place, findings)


def whole(outcome: Outcome, rest: Result, place: Place, findings: Findings) -> Any:
    """All that an outcome is, in lists as deep as members have members; `rest` asks for a field at most."""
    if isinstance(outcome, Many):
        return [whole(member, rest, place, findings) for member in outcome.members.values()]
    return read(outcome, rest, place, findings)
