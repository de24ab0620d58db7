"""The provenance that a step's files carry: what made the value, never how steps and files are called."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from restrike.cards.request_values import recordable
from restrike.keys import digest
from restrike.media.provenance import MAX_TEXT_BYTES, Provenance
from restrike.workflow.graph import Action, FileInput, Input, filled
from restrike.workflow.operations.generate import ADAPTERS, Generate

# What is left beside them: names, digests, versions.
_ARGUMENTS_BYTES = MAX_TEXT_BYTES - 4096


def provenance_of(action: Action, item: int, versions: Mapping[str, str]) -> Provenance:
    """The provenance of the item at a place of an action's value.

    A generation's is what `restrike generate --from` takes; a task's names the task, and its inputs only as
    inputs. Arguments too long for a file's header are left out by name of their size.
    """
    operation = action.operation
    arguments: dict[str, Any] = _plain(filled(action.arguments, _named))
    synced: Mapping[str, int] = {}
    if isinstance(operation, Generate):
        synced = operation.stamp.versions
        card, weights = operation.address, operation.weights
        for name in ("count", "exact"):
            arguments.pop(name, None)
        item = (arguments.pop("items", None) or range(item + 1))[item]
        arguments = {name: value for name, value in arguments.items() if value is not None}
        if not arguments.get("call", True):
            del arguments["call"]
        if isinstance(picture := action.arguments.get("image"), FileInput):
            arguments["image"] = _pixels_of(picture)
        if operation.settled:
            arguments[ADAPTERS] = [adapter.recorded() for adapter in operation.settled]
    else:
        card, weights = operation.label, digest("operation", "1", dict(operation.identity())).hex

    def made(arguments: dict[str, Any]) -> Provenance:
        return Provenance(
            card=card,
            weights=weights,
            arguments=arguments,
            seed=action.seed or 0,
            item=item,
            versions=dict(versions),
            weight_versions=synced,
        )

    size_bytes = len(json.dumps(arguments))
    if size_bytes > _ARGUMENTS_BYTES:
        return made({"omitted": f"{size_bytes} bytes of arguments"})
    return made(arguments)


def _pixels_of(picture: FileInput) -> Any:
    """A picture by its pixels, as a request that was given it names it."""
    from restrike.media import read

    return recordable(read(picture.path).frames_THWC[0])


def _named(leaf: Input | FileInput) -> str:
    return f"file {leaf.digest.hex}" if isinstance(leaf, FileInput) else "an earlier step's value"


def _plain(tree: Any) -> Any:
    """The tree with numbers that JSON cannot say as their names."""
    if isinstance(tree, dict):
        return {name: _plain(value) for name, value in tree.items()}
    if isinstance(tree, list):
        return [_plain(value) for value in tree]
    return str(tree) if isinstance(tree, float) and not math.isfinite(tree) else tree
