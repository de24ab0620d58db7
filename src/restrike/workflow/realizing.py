"""Writes what an expansion decided into the definition, so that running it again decides the same.

Values of variables become defaults, drawn seeds numbers, other files and stored prompts stand where they were
named, and `latest` is the run that it was. Assets stay references: their bytes are in the keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from restrike.workflow.findings import Place
from restrike.workflow.references import Output, StoredPrompt, escaped, parse
from restrike.workflow.sharing import Shared
from restrike.workflow.source import Source
from restrike.workflow.variables import Specs
from restrike.workflow.workspace_files import Absent

_FOR_PEOPLE = ("description", "name", "$schema")


def realized(source: Source, values: Mapping[str, Any], specs: Specs, shared: Shared) -> dict[str, Any]:
    """The definition of a source as plain values, as it was expanded with these values of its variables."""
    tree = _level(source.tree, (), shared)
    variables = {
        name: {
            **specs[name].model_dump(exclude_unset=True, exclude_none=True, exclude_defaults=True),
            "type": specs[name].type,
            "default": _pinned(value, shared),
        }
        for name, value in values.items()
    }
    tree |= {"name": source.name, "seed": shared.seeds[("seed",)]}
    if variables:
        tree["variables"] = variables
    return tree


def _level(written: Mapping[str, Any], root: Place, shared: Shared) -> dict[str, Any]:
    tree = {name: value if name in _FOR_PEOPLE else _pinned(value, shared) for name, value in written.items()}
    steps = written.get("steps", {})
    tree["steps"] = {name: _step(step, (*root, "steps", name), shared) for name, step in steps.items()}
    return tree


def _step(written: Mapping[str, Any], root: Place, shared: Shared) -> dict[str, Any]:
    step = {name: _pinned(value, shared) for name, value in written.items() if name != "workflow"}
    seed, workflow = (*root, "seed"), (*root, "workflow")
    if seed in shared.seeds:
        step["seed"] = shared.seeds[seed]
    if workflow in shared.inlined:
        step["workflow"] = _level(shared.inlined[workflow].tree, workflow, shared)
    elif isinstance(written.get("workflow"), Mapping):
        step["workflow"] = _level(written["workflow"], workflow, shared)
    return step


def _pinned(tree: Any, shared: Shared) -> Any:
    """The tree with stored prompts as their texts and `latest` as a number."""
    if isinstance(tree, Mapping):
        return {name: _pinned(value, shared) for name, value in tree.items()}
    if isinstance(tree, list):
        return [_pinned(value, shared) for value in tree]
    if not isinstance(tree, str) or not tree.startswith(("$prompt.", "$output.")):
        return tree
    try:
        reference = parse(tree)
        if isinstance(reference, StoredPrompt):
            return escaped(shared.files.prompt(reference))
        if isinstance(reference, Output):
            return f"$output.{reference.workflow}/{shared.files.run_of(reference)}/{reference.file}"
    except (Absent, ValueError):
        # In a part that this expansion had no use for.
        pass
    return tree
