"""The key of an action: the one function that the plan and the run both call.

What is not in it: names of workflow, step, run and files, folders, containers. An input enters by the digest
of its value, so an upstream action that runs again to equal bytes wakes nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from restrike.errors import Refused
from restrike.keys import Digest, Key, Ref, digest
from restrike.workflow.graph import Action, FileInput, Graph, Input, filled

DOMAIN, EPOCH = "step", "1"


@dataclass(frozen=True, kw_only=True)
class StepKey:
    """`key` decides reuse; `family` is the same without the inputs, to find out what may come back."""

    key: Key
    family: Digest


class NotReused(Refused):
    """An action whose result is not reused; the message says why."""


def step_key(graph: Graph, action: Action, values: Mapping[str, Digest]) -> StepKey:
    """The key of an action whose inputs have these value digests.

    Raises:
        NotReused: the operation declares side effects.
        Unkeyable: an argument cannot be keyed; the message names its place.
    """
    _check_reusable(action)
    return StepKey(
        key=Key(DOMAIN, EPOCH, _parts(graph, action, lambda name: Ref(values[name]))),
        family=family(graph, action),
    )


def family(graph: Graph, action: Action) -> Digest:
    """The digest of all that is known of an action before its inputs are; raises as `step_key`."""
    _check_reusable(action)
    return digest("step-family", EPOCH, _parts(graph, action, lambda name: None))


def work(graph: Graph, action: Action, upstream: Mapping[str, Digest]) -> Digest:
    """The digest of what an action computes and of the work that it reads, whatever the seeds and the scope.

    Raises:
        Unkeyable: an argument cannot be keyed; NotHere when weights have no identity yet.
    """
    parts = _parts(graph, action, lambda name: Ref(upstream[name]))
    for name in ("seed", "scope"):
        parts.pop(name, None)
    return digest("work", EPOCH, parts)


def _check_reusable(action: Action) -> None:
    if not action.operation.reusable:
        raise NotReused(f"{action.operation.label} declares side effects")


def _parts(graph: Graph, action: Action, whole: Callable[[str], object]) -> dict[str, object]:
    """All that decides a result; `whole` says what stands for another action's value."""
    operation = action.operation

    def keyed(leaf: Input | FileInput) -> object:
        if isinstance(leaf, FileInput):
            return (Ref(leaf.digest, of="file"), leaf.kind)
        value = whole(leaf.action)
        return value if leaf.item is None and leaf.field is None else (value, leaf.item, leaf.field)

    parts: dict[str, object] = {
        "operation": operation.identity(),
        "arguments": filled(action.arguments, keyed),
        "scope": graph.scope,
    }
    if operation.draws:
        parts["seed"] = action.seed
    if graph.match == "exact":
        parts["machine"] = operation.exact_identity()
    return parts
