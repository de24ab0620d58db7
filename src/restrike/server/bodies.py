"""What a job's body means: the workflow that is run, and what is asked of it. Reads no file, runs nothing.

A generation is a workflow of one step, so that it has a run folder, reuse and provenance like all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from restrike.server.jobs.model import JobKind
from restrike.workflow.operations.generate import ARGUMENTS
from restrike.workflow.references import escaped
from restrike.workflow.session import Asked
from restrike.workflow.source import UNNAMED, Source, read_text, read_tree
from restrike.workflow.values_given import RANDOM

GENERATION = "generation"
"""The workflow, and its step, that a generation is run as."""
STORED = ("$asset.", "$output.")
_TEXTS = ("prompt", "negative_prompt")


def source_of(kind: JobKind, body: Mapping[str, Any]) -> Source:
    """The workflow of a job; raises InvalidWorkflow for a text that is none."""
    if kind is JobKind.GENERATION:
        return read_tree(generation_tree(body), name=GENERATION)
    name, definition = body.get("name") or UNNAMED, body["definition"]
    if isinstance(definition, str):
        return read_text(definition, name=name)
    return read_tree(definition, name=name)


def asked_of(body: Mapping[str, Any]) -> Asked:
    """What a job asks for beside its workflow."""
    return Asked(
        values=body.get("values") or {},
        seed=body.get("seed"),
        reuse=body.get("reuse", True),
        rerun=tuple(body.get("rerun") or ()),
    )


def generation_tree(body: Mapping[str, Any]) -> dict[str, Any]:
    """The workflow of one step that a generation is run as."""
    given = {name: body[name] for name in (*ARGUMENTS, "call") if body.get(name) is not None}
    arguments = {name: _written(name, value) for name, value in given.items()}
    step: dict[str, Any] = {"generate": body["card"], "arguments": arguments}
    if body.get("output"):
        step["result"] = {"container": body["output"]}
    seed = body.get("seed")
    return {"seed": RANDOM if seed is None else seed, "steps": {GENERATION: step}}


def _written(name: str, value: Any) -> Any:
    """A value as a workflow writes it: texts as they are, pictures by where they are kept."""
    if name in _TEXTS:
        return escaped(value)
    if name == "image":
        return value if value.startswith(STORED) else f"{STORED[0]}{value}"
    return _literal(value) if name == "call" else value


def _literal(tree: Any) -> Any:
    if isinstance(tree, Mapping):
        return {name: _literal(value) for name, value in tree.items()}
    if isinstance(tree, list):
        return [_literal(value) for value in tree]
    return escaped(tree) if isinstance(tree, str) else tree
