"""Reads a workflow file into plain values: YAML 1.2 or JSON, bounded, without duplicate keys.

It says where the text is wrong; what the values mean is decided elsewhere.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from restrike.cards import registry
from restrike.errors import NotFound, Refused, near_beside, typed
from restrike.workflow.findings import Finding, Findings, InvalidWorkflow, Place
from restrike.workflow.yaml_nodes import MAX_DEPTH, MAX_VALUES, TooMany, read_yaml

MAX_FILE_BYTES = 4 << 20
SUFFIXES = (".yaml", ".yml", ".json")
"""What a workflow file's name ends with."""


def load_file(path: Path) -> dict[str, Any]:
    """The plain values of a workflow file; one that ends in `.json` is JSON, all others are YAML.

    Raises:
        NotFound: there is no such file.
        Refused: it cannot be read, is too large, or is Python.
        InvalidWorkflow: it is neither YAML nor JSON, or not a mapping; the finding names line and column.
    """
    if path.is_dir():
        raise Refused(f"'{path}' is a folder; name the workflow file in it")
    if not path.is_file():
        raise NotFound(f"no workflow file at '{path}'{_meant(path)}")
    if path.suffix.lower() == ".py":
        raise Refused(f"'{path}' is Python; endpoints in it are checked by: restrike endpoints check {path}")
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise Refused(f"'{path}' is over {MAX_FILE_BYTES} bytes, too large for a workflow file")
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise Refused(f"'{path}' is not UTF-8 text") from error
    except OSError as error:
        raise typed(error) from error
    return load_text(text, as_json=path.suffix.lower() == ".json")


def _meant(path: Path) -> str:
    """What may have been meant by a path at which nothing is."""
    if str(path) in registry.names():
        return f"; '{path}' is a card; say: restrike generate PROMPT --card {path}"
    return near_beside(str(path), lambda each: each.suffix.lower() in SUFFIXES)


def load_text(text: str, *, as_json: bool = False) -> dict[str, Any]:
    """The plain values of a workflow's text; raises InvalidWorkflow as `load_file`."""
    findings = Findings()
    tree = _json(text, findings) if as_json else _yaml(text, findings)
    findings.check()
    return _mapping(tree)


def plain(tree: Any) -> dict[str, Any]:
    """A workflow that a program made, as plain values of its own; raises InvalidWorkflow."""
    tree = _mapping(tree)
    findings = Findings()
    copied = _Copying(findings).value(tree, ())
    findings.check()
    return copied


def _mapping(tree: Any) -> dict[str, Any]:
    """The tree, which may be a workflow; a graph of ComfyUI would only give a list of unknown keys."""
    if not isinstance(tree, dict):
        raise _invalid("", "a workflow is a mapping with steps")
    each_is_node = all(isinstance(value, dict) and "class_type" in value for value in tree.values())
    if {"nodes", "links"} <= tree.keys() or (tree and each_is_node):
        raise _invalid(
            "",
            "this is a graph of ComfyUI; a workflow here has steps, and `restrike schema` prints their form",
        )
    return tree


def _invalid(path: str, message: str) -> InvalidWorkflow:
    return InvalidWorkflow([Finding(path=path, message=message)])


class _Twice(dict[str, Any]):
    """A JSON object in which a key was there twice."""

    repeated: tuple[str, ...] = ()


def _json(text: str, findings: Findings) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = _Twice(pairs)
        if len(found) < len(pairs):
            counts = Counter(name for name, _ in pairs)
            found.repeated = tuple(name for name, count in counts.items() if count > 1)
        return found

    try:
        tree = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise _invalid(f"line {error.lineno}, column {error.colno}", f"not JSON: {error.msg}") from error
    except (RecursionError, ValueError) as error:
        raise _invalid("", f"not JSON that can be read: {error}") from error
    return _Copying(findings).value(tree, ())


def _yaml(text: str, findings: Findings) -> Any:
    from yaml import MarkedYAMLError, YAMLError

    try:
        return read_yaml(text, findings)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        hint = _hint(text, mark.line, mark.column) if mark else ""
        problem = " ".join(str(error.problem or error.context).split())
        raise _invalid(place, f"not YAML: {problem}{hint}") from error
    except YAMLError as error:
        raise _invalid("", f"not YAML: {' '.join(str(error).split())}") from error
    except TooMany as error:
        raise _invalid("", str(error)) from error
    except RecursionError as error:
        raise _invalid("", f"not YAML: nested deeper than {MAX_DEPTH}") from error


def _hint(text: str, line: int, column: int) -> str:
    """What people trip over most: brackets end a bare text inside braces."""
    lines = text.splitlines()
    written = lines[line][: column + 1] if line < len(lines) else ""
    bracketed = written.endswith("[") and "$step." in written
    rule = '; inside { } or [ ] a reference with brackets is in quotes: "$step.many[*]"'
    return rule if bracketed else ""


class _Copying:
    """Copies a tree of plain values, and notes what is not plain, too deep or too much."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._left = MAX_VALUES

    def value(self, value: Any, place: Place) -> Any:
        self._left -= 1
        if self._left < 0:
            raise _invalid("", f"more than {MAX_VALUES} values")
        if len(place) > MAX_DEPTH:
            raise _invalid("", f"nested deeper than {MAX_DEPTH}")
        if isinstance(value, dict):
            for name in getattr(value, "repeated", ()):
                self._findings.add((*place, name), "the key is there twice")
            return {str(name): self.value(part, (*place, str(name))) for name, part in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(part, (*place, index)) for index, part in enumerate(value)]
        if value is None or isinstance(value, bool | int | float | str):
            return value
        self._findings.add(place, f"a workflow holds plain values, not a {type(value).__name__}")
        return None
