"""Reads YAML into plain values by the core schema of YAML 1.2: `yes` and `on` are texts, dates too.

It never builds an object that is not plain data, and counts what aliases repeat before it repeats it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from restrike.workflow.findings import Findings, Place

MAX_VALUES = 100_000
MAX_DEPTH = 64
# Of an integer: hardly any other program reads, writes or shows longer ones.
_MAX_DIGITS = 1000

_TAG = "tag:yaml.org,2002:"
_MERGE = f"{_TAG}merge"
_SCALARS: dict[str, tuple[str, str]] = {
    "null": (r"~|null|Null|NULL|", "~nN"),
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    "float": (
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+0123456789.",
    ),
    "merge": (r"<<", "<"),
}


class TooMany(Exception):
    """A text with more values than a workflow may have."""

    def __init__(self) -> None:
        super().__init__(f"more than {MAX_VALUES} values, counting each use of an alias")


class _Core(BaseResolver):
    """Plain scalars by the core schema, and `<<` for mappings that are written once and used often.

    It is asked once for each node, so it counts them while they are still being made.
    """

    def __init__(self) -> None:
        super().__init__()
        self._left = MAX_VALUES

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise TooMany
        return super().resolve(kind, value, implicit)


for _name, (_form, _heads) in _SCALARS.items():
    _heads_or_empty = [*_heads, ""] if _name == "null" else list(_heads)
    _Core.add_implicit_resolver(f"{_TAG}{_name}", re.compile(rf"(?:{_form})\Z"), _heads_or_empty)


class _PurePython(Reader, Scanner, Parser, Composer, _Core):
    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        _Core.__init__(self)


def _composer(text: str) -> Any:
    """libyaml's composer, which is twenty times as fast, where PyYAML was built with it."""
    if not yaml.__with_libyaml__:
        return _PurePython(text)
    from yaml.cyaml import CParser  # pyright: ignore[reportAttributeAccessIssue]  (compiled)

    class Compiled(CParser, _Core):
        def __init__(self, text: str) -> None:
            CParser.__init__(self, text)
            _Core.__init__(self)

    return Compiled(text)


def read_yaml(text: str, findings: Findings) -> Any:
    """The plain values of the one document of a text; what is not plain is noted at its place.

    Raises:
        yaml.YAMLError: the text is not YAML.
        TooMany: it holds too much, or an alias stands for too much.
        RecursionError: it nests deeper than the parser follows.
    """
    node = _composer(text).get_single_node()
    if node is None:
        return None
    if _weight(node, {}, ()) > MAX_VALUES:
        raise TooMany
    return _Reading(findings).value(node, ())


def _weight(node: Node, known: dict[int, int], above: tuple[int, ...]) -> int:
    """How many values a node stands for with all its aliases written out; endless or too deep is too many."""
    if id(node) in known:
        return known[id(node)]
    if id(node) in above or len(above) > MAX_DEPTH:
        return MAX_VALUES + 1
    here = (*above, id(node))
    weight = 1 + sum(_weight(part, known, here) for part in _parts(node))
    known[id(node)] = min(weight, MAX_VALUES + 1)
    return known[id(node)]


def _parts(node: Node) -> Iterator[Node]:
    if isinstance(node, MappingNode):
        for key, value in node.value:
            yield from (key, value)
    elif isinstance(node, SequenceNode):
        yield from node.value


class _Reading:
    def __init__(self, findings: Findings) -> None:
        self._findings = findings

    def value(self, node: Node, place: Place) -> Any:
        tag = str(node.tag)
        if isinstance(node, MappingNode) and tag == f"{_TAG}map":
            return self._mapping(node, place)
        if isinstance(node, SequenceNode) and tag == f"{_TAG}seq":
            return [self.value(part, (*place, index)) for index, part in enumerate(node.value)]
        if isinstance(node, ScalarNode) and tag.removeprefix(_TAG) in (*_SCALARS, "str"):
            return self._scalar(node, tag.removeprefix(_TAG), place)
        self._findings.add(
            place, f"{_line(node)}: a workflow holds plain values, not {tag.replace(_TAG, '!!')}"
        )
        return None

    def _mapping(self, node: MappingNode, place: Place) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag == _MERGE:
                for name, part in self._merged(value, place).items():
                    merged.setdefault(name, part)
                continue
            if not isinstance(key, ScalarNode):
                self._findings.add(place, f"{_line(key)}: a key is one word or text")
                continue
            name = str(key.value)
            if name in found:
                self._findings.add((*place, name), f"{_line(key)}: the key is there twice")
            found[name] = self.value(value, (*place, name))
        return merged | found

    def _merged(self, node: Node, place: Place) -> dict[str, Any]:
        parts = node.value if isinstance(node, SequenceNode) else [node]
        merged: dict[str, Any] = {}
        for part in parts:
            value = self.value(part, place)
            if isinstance(value, dict):
                for name, entry in value.items():
                    merged.setdefault(name, entry)
            else:
                self._findings.add(place, f"{_line(node)}: << takes a mapping, or a list of them")
        return merged

    def _scalar(self, node: ScalarNode, kind: str, place: Place) -> Any:
        text = str(node.value)
        try:
            return _READERS.get(kind, str)(text)
        except ValueError:
            self._findings.add(place, f"{_line(node)}: '{text[:40]}' cannot be read as {kind}")
            return None


def _int(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError
    return int(text, 0) if text[:2] in ("0o", "0x") else int(text)


def _float(text: str) -> float:
    lower = text.lower()
    return float(lower.replace(".inf", "inf").replace(".nan", "nan"))


_READERS: dict[str, Any] = {
    "null": lambda text: None,
    "bool": lambda text: text.lower() == "true",
    "int": _int,
    "float": _float,
}


def _line(node: Node) -> str:
    return f"line {node.start_mark.line + 1}"
