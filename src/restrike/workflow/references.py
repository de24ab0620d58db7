"""The reference syntax: whole string values that begin with `$`.

This module reads and writes references; it resolves none and knows no workflow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
_SELECTOR = rf"(?:\[(?P<item>[^\[\]]+)\])?(?:\.(?P<field>{NAME}))?"
_FORMS = (
    "$var.NAME, $step.NAME, $step.NAME[ENTRY], $step.NAME[*], $step.NAME.FIELD, $item, $item.FIELD, "
    "$item.FIELD | DEFAULT, $key, $asset.PATH, $output.WORKFLOW/RUN/FILE, $prompt.NAME"
)
ALL = "*"
_MAX_DEFAULTS = 16


@dataclass(frozen=True)
class Variable:
    """`$var.NAME`: a variable of this workflow."""

    name: str


@dataclass(frozen=True)
class Result:
    """`$step.NAME`, then optionally `[ENTRY]`, `[0]` or `[*]`, then optionally `.FIELD`."""

    step: str
    item: str | None = None
    field: str | None = None


@dataclass(frozen=True)
class Item:
    """`$item` or `$item.FIELD`: the entry of this member of a `for_each`."""

    field: str | None = None


@dataclass(frozen=True)
class Otherwise:
    """`$item.FIELD | DEFAULT`: the field, or the default for an entry that lacks it."""

    field: str
    default: Any


@dataclass(frozen=True)
class Member:
    """`$key`: the name of this member of a `for_each`."""


@dataclass(frozen=True)
class Asset:
    """`$asset.PATH`: a file below the workspace's `assets` folder."""

    path: str


@dataclass(frozen=True)
class Output:
    """`$output.WORKFLOW/RUN/FILE`: a file of an earlier run; RUN is a number or `latest`."""

    workflow: str
    run: str
    file: str


@dataclass(frozen=True)
class StoredPrompt:
    """`$prompt.NAME`: the text of the workspace's `prompts/NAME.txt`."""

    name: str


Stored = Asset | Output | StoredPrompt
Reference = Variable | Result | Item | Otherwise | Member | Stored

_PATTERNS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Reference]], ...] = (
    (re.compile(rf"\$var\.({NAME})"), lambda m: Variable(m[1])),
    (
        re.compile(rf"\$step\.(?P<step>{NAME}){_SELECTOR}"),
        lambda m: Result(m["step"], m["item"] and m["item"].strip(), m["field"]),
    ),
    (re.compile(rf"\$item(?:\.({NAME}))?"), lambda m: Item(m[1])),
    (
        re.compile(rf"\$item\.({NAME})\s*\|\s*(.*)", re.DOTALL),
        lambda m: Otherwise(m[1], _default(m[2])),
    ),
    (re.compile(r"\$key"), lambda m: Member()),
    (re.compile(r"\$asset\.(.+)"), lambda m: Asset(m[1])),
    (re.compile(rf"\$output\.({NAME})/(latest|\d{{1,9}})/(.+)"), lambda m: Output(m[1], m[2], m[3])),
    (re.compile(rf"\$prompt\.({NAME})"), lambda m: StoredPrompt(m[1])),
)


def parse(text: str) -> Reference | str:
    """A reference, or the literal text (with `$$` at its head made `$`); raises ValueError for neither."""
    if not text.startswith("$"):
        return text
    if text.startswith("$$"):
        return text[1:]
    for pattern, made in _PATTERNS:
        match = pattern.fullmatch(text)
        if match:
            return made(match)
    shown = text if len(text) <= 60 else f"{text[:57]}..."
    raise ValueError(f"'{shown}' is no reference; write '${shown}' for the text itself (the forms: {_FORMS})")


def escaped(text: str) -> str:
    """The text as a workflow writes it, so that it is no reference."""
    return f"${text}" if text.startswith("$") else text


def _default(text: str) -> Any:
    """What stands right of the bar: a reference, a JSON value, or a bare text."""
    if text.startswith("$"):
        if text.count("|") > _MAX_DEFAULTS:
            raise ValueError(f"more than {_MAX_DEFAULTS} defaults one after another")
        return parse(text)
    try:
        return json.loads(text)
    except ValueError:
        return text.strip()
