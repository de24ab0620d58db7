"""Settles one action: reuse what is kept under its key, or compute it once and keep it.

The one place where a step's result comes from; the plan asks the same key function and never gets here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from restrike.cards.checkpoint import NotHere
from restrike.errors import Refused, Shortfall
from restrike.keys import Digest, Unkeyable
from restrike.store.entry import Entry
from restrike.store.store import Store
from restrike.store.values import pack
from restrike.workflow.graph import Action, Graph
from restrike.workflow.keying import NotReused, StepKey, step_key

Compute = Callable[[Action], Any]


@dataclass(frozen=True, kw_only=True)
class Settled:
    """An action's outcome: a kept entry, or a value that lives only in this run (`value` of an Unkept)."""

    status: str
    seconds: float
    digest: Digest | None
    key: StepKey | None = None
    entry: Entry | None = None
    value: Any = None
    reason: str = ""
    origin: str = ""


@dataclass(frozen=True, kw_only=True)
class Reuse:
    """How a run uses what is kept: steps to run whatever is kept, and whether to look at all."""

    enabled: bool = True
    fresh: frozenset[str] = frozenset()


def settle(
    graph: Graph,
    action: Action,
    store: Store,
    digests: Mapping[str, Digest],
    compute: Compute,
    *,
    reuse: Reuse,
    origin: str,
    check: Callable[[], None],
) -> Settled:
    """The result of an action, from the store or computed; `check` may raise to stop waiting for another."""
    try:
        missing = next((i.action for i in action.inputs() if i.action not in digests), None)
        if missing is not None:
            raise NotReused(f"the value of '{missing}' has no key")
        keys = _keyed(graph, action, digests)
    except (NotReused, Unkeyable) as error:
        return _uncached(action, compute, reason=str(error))
    if not reuse.enabled or action.step in reuse.fresh:
        if action.step in reuse.fresh:
            store.remove(keys.key)
        return _computed(action, store, keys, compute, origin)
    with store.flight(keys.key, check) as entry:
        if entry is not None:
            return Settled(
                status="reused", seconds=0.0, digest=entry.value, key=keys, entry=entry, origin=entry.origin
            )
        return _computed(action, store, keys, compute, origin)


def _keyed(graph: Graph, action: Action, digests: Mapping[str, Digest]) -> StepKey:
    """The key; weights that are not on this machine are fetched first, for they have no identity before."""
    try:
        return step_key(graph, action, digests)
    except NotHere:
        action.operation.fetch()
        return step_key(graph, action, digests)


def _timed(action: Action, compute: Compute) -> tuple[Any, float]:
    began = time.perf_counter()
    value = compute(action)
    return value, time.perf_counter() - began


def _uncached(action: Action, compute: Compute, *, reason: str) -> Settled:
    value, seconds = _timed(action, compute)
    try:
        digest = pack(value).digest
    except Unkeyable as error:
        reason, digest = f"{reason}; {error}" if reason else str(error), None
    return Settled(status="computed", seconds=seconds, digest=digest, value=value, reason=reason)


def _computed(action: Action, store: Store, keys: StepKey, compute: Compute, origin: str) -> Settled:
    value, seconds = _timed(action, compute)
    label = action.operation.label
    try:
        kept = store.put(keys.key, value, seconds=seconds, label=label, origin=origin, family=keys.family)
    except (Refused, Shortfall) as error:
        try:
            digest = pack(value).digest
        except Unkeyable:
            digest = None
        reason = f"not kept: {error}"
        return Settled(
            status="computed", seconds=seconds, digest=digest, key=keys, value=value, reason=reason
        )
    store.record_timing(action.operation.timing_label(action.arguments), seconds)
    if kept.other is not None:
        reason = f"not deterministic: this time it gave {kept.other.short}, kept is {kept.entry.value.short}"
        return Settled(
            status="computed", seconds=seconds, digest=kept.other, key=keys, value=value, reason=reason
        )
    return Settled(
        status="computed",
        seconds=seconds,
        digest=kept.entry.value,
        key=keys,
        entry=kept.entry,
        value=value,
        origin=origin,
    )


def versions_of(origin: str) -> tuple[str, Mapping[str, str]]:
    """The run and the program versions that an entry's origin names."""
    try:
        tree = json.loads(origin)
        return str(tree["run"]), dict(tree["versions"])
    except (ValueError, KeyError, TypeError):
        return origin, {}


def origin_of(run: str, versions: Mapping[str, str]) -> str:
    """The inverse of `versions_of`."""
    return json.dumps({"run": run, "versions": dict(versions)}, sort_keys=True)
