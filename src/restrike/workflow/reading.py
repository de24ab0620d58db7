"""From plain values to a definition: every fault of form becomes a finding, and what is whole is still read.

A step with a fault is left out, so that the others are checked in the same go; its name is remembered.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from restrike.workflow.definition import (
    Definition,
    LoraSpec,
    PipelineSpec,
    QuantizationSpec,
    ResultSpec,
    ReuseSpec,
    SchedulerSpec,
    SegmentsSpec,
    StepSpec,
)
from restrike.workflow.findings import Findings, Place, no_such

_MODELS: Mapping[str, type[BaseModel]] = {
    "result": ResultSpec,
    "segments": SegmentsSpec,
    "pipeline": PipelineSpec,
    "scheduler": SchedulerSpec,
    "loras": LoraSpec,
    "quantization": QuantizationSpec,
    "reuse": ReuseSpec,
    "workflow": Definition,
}


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A definition, and the names of the steps and variables that had faults and are not in it."""

    definition: Definition
    broken_steps: frozenset[str] = frozenset()
    broken_variables: frozenset[str] = frozenset()


def read(tree: dict[str, Any], findings: Findings, place: Place = ()) -> Reading | None:
    """What of a workflow's plain values has the right form; None when nothing is left."""
    left, broken = deepcopy(tree), set[Place]()
    while True:
        try:
            return Reading(
                definition=Definition.model_validate(left),
                broken_steps=_names(broken, "steps"),
                broken_variables=_names(broken, "variables"),
            )
        except ValidationError as error:
            faults = error.errors(include_url=False, include_context=True)
        before = deepcopy(left)
        places = [_in_the_file(fault["loc"], left) for fault in faults]
        for fault, at in zip(faults, places, strict=True):
            findings.add((*place, *at), fault_message(fault, _model_at(at[:-1])))
        for fault, at in zip(faults, places, strict=True):
            broken |= _drop(left, at, only_key=fault["type"] == "extra_forbidden")
        if not left.get("steps") or left == before:
            return None


def fault_message(fault: Any, known: type[BaseModel]) -> str:
    """One line for one fault that pydantic found in a model."""
    if fault["type"] == "extra_forbidden":
        names = [part.alias or key for key, part in known.model_fields.items()]
        return f"unknown {no_such('key', str(fault['loc'][-1]), names).removeprefix('no ')}"
    if fault["type"] == "value_error":
        return str(fault["ctx"]["error"])
    if fault["type"] == "missing":
        return "is missing"
    return f"{fault['msg'][0].lower()}{fault['msg'][1:]}"


def _in_the_file(location: tuple[str | int, ...], tree: Any) -> Place:
    """pydantic's location without the names of union members and marks, which the author never wrote."""
    place: list[str | int] = []
    node: Any = tree
    for index, step in enumerate(location):
        if _has(node, step):
            node = node[step]
        elif index < len(location) - 1 or not isinstance(node, dict) or step == "[key]":
            continue
        place.append(step)
    return tuple(place)


def _has(node: Any, step: str | int) -> bool:
    if isinstance(node, dict):
        return step in node
    return isinstance(node, list) and isinstance(step, int) and step < len(node)


def _model_at(place: Place) -> type[BaseModel]:
    """The model of the mapping at a place."""
    names = [step for step in place if isinstance(step, str)]
    if len(names) >= 2 and names[-2] == "steps":
        return StepSpec
    return _MODELS.get(names[-1], Definition) if names else Definition


def _names(places: set[Place], section: str) -> frozenset[str]:
    return frozenset(str(place[1]) for place in places if place[0] == section)


def _drop(tree: dict[str, Any], place: Place, *, only_key: bool) -> set[Place]:
    """Remove what has a fault: a key that nobody knows, or the step, variable or key that is wrong.

    Returns the places of steps and variables that are gone by it.
    """
    depth = len(place) if only_key or not place else 2 if place[0] in ("steps", "variables") else 1
    if depth > len(place):
        tree.pop(str(place[0]) if place else "steps", None)
        return set()
    node: Any = tree
    try:
        for step in place[: depth - 1]:
            node = node[step]
        del node[place[depth - 1]]
    except (KeyError, IndexError, TypeError):
        # Another fault of the same step has taken it out already, or the key is one that is missing.
        return set()
    return set() if only_key or depth == 1 else {place[:2]}
