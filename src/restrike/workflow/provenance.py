"""The provenance that a step's files carry: what made the value, never how steps and files are called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from restrike.keys import digest
from restrike.media.provenance import Provenance
from restrike.workflow.graph import Action, FileInput, Input, filled
from restrike.workflow.operations.generate import Generate


def provenance_of(action: Action, item: int, versions: Mapping[str, str]) -> Provenance:
    """The provenance of one item of an action's value.

    A generation's is what `restrike generate --from` takes; a task's names the task, and its inputs only as
    inputs.
    """
    operation = action.operation
    arguments: dict[str, Any] = filled(action.arguments, _named)
    if isinstance(operation, Generate):
        card, weights = operation.address, str(operation.identity()["weights"])
        arguments.pop("count", None)
        arguments = {name: value for name, value in arguments.items() if value is not None}
    else:
        card, weights = operation.label, digest("operation", "1", dict(operation.identity())).hex
    return Provenance(
        card=card,
        weights=weights,
        arguments=arguments,
        seed=action.seed or 0,
        item=item,
        versions=dict(versions),
    )


def _named(leaf: Input | FileInput) -> str:
    return f"file {leaf.digest.hex}" if isinstance(leaf, FileInput) else "an earlier step's value"
