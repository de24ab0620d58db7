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
from restrike.workflow.values import check_revivable

Compute = Callable[[Action], Any]
AGAIN = "asked to run again"


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

    def overrules(self, action: Action) -> str:
        """Why an action is computed whatever is kept; empty when it is not."""
        if action.step in self.fresh:
            return AGAIN
        return "" if self.enabled else "reuse is off"


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
    asked = reuse.overrules(action)
    if asked:
        return _kept(
            action, store, keys, _timed(action, compute), origin, replace=asked == AGAIN, reason=asked
        )
    with store.flight(keys.key, check) as entry:
        if entry is not None:
            return Settled(
                status="reused", seconds=0.0, digest=entry.value, key=keys, entry=entry, origin=entry.origin
            )
        return _kept(action, store, keys, _timed(action, compute), origin)


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
        reason, digest = _both(reason, str(error)), None
    return Settled(status="computed", seconds=seconds, digest=digest, value=value, reason=reason)


def _kept(
    action: Action,
    store: Store,
    keys: StepKey,
    computed: tuple[Any, float],
    origin: str,
    *,
    replace: bool = False,
    reason: str = "",
) -> Settled:
    """Keep what was computed; a value that cannot be kept still serves this run, and says why."""
    value, seconds = computed
    known = {"status": "computed", "seconds": seconds, "key": keys, "value": value, "origin": origin}
    try:
        check_revivable(value)
        if replace:
            store.remove(keys.key)
        kept = store.put(
            keys.key,
            value,
            seconds=seconds,
            label=action.operation.label,
            origin=origin,
            family=keys.family,
        )
        store.record_timing(action.operation.timing_label(action.arguments), seconds)
    except (Refused, Shortfall) as error:
        return Settled(**known, digest=digest_of(value), reason=_both(reason, f"not kept: {error}"))
    if kept.other is not None:
        differs = f"not deterministic: this time it gave {kept.other.short}, kept is {kept.entry.value.short}"
        return Settled(**known, digest=kept.other, reason=_both(reason, differs))
    return Settled(**known, digest=kept.entry.value, entry=kept.entry, reason=reason)


def digest_of(value: Any) -> Digest | None:
    """The digest of a value; None when it has none, so that nothing that reads it can be kept."""
    try:
        return pack(value).digest
    except Unkeyable:
        return None


def _both(first: str, second: str) -> str:
    return f"{first}; {second}" if first else second


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
