"""The order of steps by what they read, and the circles in which no order exists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from restrike.workflow.definition import Definition, StepSpec
from restrike.workflow.findings import Findings, Place
from restrike.workflow.references import Otherwise, Result, parse


def in_order(definition: Definition, place: Place, findings: Findings) -> tuple[str, ...]:
    """The names of all steps but those in circles, each after all that it reads; else as they are written."""
    reads = {
        name: [read for read in dict.fromkeys(steps_read(step)) if read in definition.steps]
        for name, step in definition.steps.items()
    }
    while True:
        sorter: TopologicalSorter[str] = TopologicalSorter(reads)
        try:
            sorter.prepare()
        except CycleError as error:
            circle = list(error.args[1])[::-1]
            first = min(circle, key=list(definition.steps).index)
            start = circle.index(first)
            shown = [*circle[start:-1], *circle[:start], first]
            findings.add(
                (*place, "steps", first), f"steps read each other in a circle: {' reads '.join(shown)}"
            )
            reads = {
                name: [read for read in read_by if read not in circle]
                for name, read_by in reads.items()
                if name not in circle
            }
            continue
        return tuple(_by_data(sorter, list(reads)))


def steps_read(step: StepSpec) -> Iterator[str]:
    """The names of the steps that a step refers to, wherever it does."""
    for tree in (step.arguments, step.for_each, step.seed, step.segments, step.result, step.pipeline):
        yield from _named(tree.model_dump() if hasattr(tree, "model_dump") else tree)  # pyright: ignore[reportAttributeAccessIssue,reportOptionalMemberAccess]


def _by_data(sorter: TopologicalSorter[str], written: list[str]) -> Iterator[str]:
    position = {name: index for index, name in enumerate(written)}
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=position.__getitem__)
        yield from ready
        sorter.done(*ready)


def _named(tree: Any) -> Iterator[str]:
    if isinstance(tree, str) and tree.startswith("$"):
        try:
            found = parse(tree)
        except ValueError:
            return
        while isinstance(found, Otherwise):
            found = found.default
        if isinstance(found, Result):
            yield found.step
    elif isinstance(tree, Mapping):
        for value in tree.values():
            yield from _named(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _named(value)
