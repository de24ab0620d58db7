"""Expands workflows that are written as texts in a test, on the smallest card."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from restrike.keys import Digest
from restrike.workflow.expansion import Machine, expand
from restrike.workflow.findings import InvalidWorkflow
from restrike.workflow.graph import Action, Graph
from restrike.workflow.keying import step_key
from restrike.workflow.source import Source, read_text, read_tree
from restrike.workflow.tasks.registry import Tasks

MACHINE = Machine(tasks=Tasks((Path(__file__).with_name("kept_tasks.py"),)), device="cpu")
NOWHERE = Path("/nowhere/at/all")
DIGIT = {"generate": "digits", "arguments": {"prompt": "a seven"}}


def counted() -> Any:
    """Draws 1001, 1002, ..."""
    numbers: Iterator[int] = iter(range(1001, 10**6))
    return lambda: next(numbers)


def expanded(
    written: str | Mapping[str, Any] | Source,
    values: Mapping[str, Any] | None = None,
    workspace: Path = NOWHERE,
    **choices: Any,
) -> Graph:
    """The graph of a workflow."""
    if isinstance(written, str):
        written = read_text(written)
    elif not isinstance(written, Source):
        written = read_tree(written)
    return expand(written, values or {}, workspace, MACHINE, **({"draw": counted()} | choices))


def findings(
    written: str | Mapping[str, Any] | Source,
    values: Mapping[str, Any] | None = None,
    workspace: Path = NOWHERE,
) -> dict[str, str]:
    """The messages by path; the workflow must have some, and each be one line."""
    with pytest.raises(InvalidWorkflow) as caught:
        expanded(written, values, workspace)
    found = {finding.path: finding.message for finding in caught.value.findings}
    assert len(found) == len(caught.value.findings), caught.value.findings
    assert not any("\n" in message for message in found.values())
    return found


def steps(**named: Any) -> dict[str, Any]:
    """A workflow with these steps and seed 7."""
    return {"seed": 7, "steps": named}


def keep(value: Any, **more: Any) -> dict[str, Any]:
    """A step that gives back what it got."""
    return {"task": "mine.keep", "arguments": {"value": value}, **more}


def ids(graph: Graph) -> list[str]:
    """The ids of all actions, in order."""
    return [action.id for action in graph.actions]


def arguments(graph: Graph, name: str) -> Mapping[str, Any]:
    """The arguments of one action."""
    return graph.action(name).arguments


def keys_of(graph: Graph) -> dict[str, Digest]:
    """The key of each action by id, as if each value's digest were its action's key."""
    found: dict[str, Digest] = {}
    for action in graph.actions:
        found[action.id] = step_key(graph, action, found).key.digest
    return found


def only(graph: Graph) -> Action:
    """The one action of a graph."""
    (action,) = graph.actions
    return action
