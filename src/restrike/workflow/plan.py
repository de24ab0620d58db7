"""The plan: what a run would reuse and what it would compute, asked of the same functions as the run.

It computes no value, writes nothing, loads no model and imports no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, partial
from statistics import median

from restrike.errors import Refused
from restrike.keys import Digest, digest
from restrike.store.store import Store
from restrike.workflow.graph import Action, FileInput, Graph, Input, filled
from restrike.workflow.keying import NotReused, family, step_key, work
from restrike.workflow.settling import AGAIN, versions_of

Expected = Callable[[str], float | None]


class Status(StrEnum):
    """What becomes of an action."""

    REUSED = "reused"
    RUNS = "will run"
    MAY_RUN = "will run unless"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One action of a plan. `unless` names the actions whose equal values would spare it.

    `seconds` is the median of what it took before, None when it never ran here; `download_bytes` is None when
    that cannot be found out now; `reason` says why a result is not reused although nothing upstream runs.
    """

    action: str
    label: str
    status: Status
    unless: tuple[str, ...] = ()
    seconds: float | None = None
    download_bytes: int | None = 0
    reason: str = ""
    origin: str = ""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a run would do. `fingerprint` is equal for equal work, whatever the seed."""

    workflow: str
    rows: tuple[Row, ...]
    elided: tuple[str, ...]
    notices: tuple[str, ...]
    fingerprint: str

    @property
    def seconds(self) -> float:
        """What the actions that run are expected to take, as far as they ran before."""
        return sum(row.seconds or 0.0 for row in self.rows if row.status is not Status.REUSED)

    @property
    def download_bytes(self) -> int:
        """What the actions that run have to fetch first."""
        return sum(row.download_bytes or 0 for row in self.rows if row.status is not Status.REUSED)


def plan(graph: Graph, store: Store, *, fresh: frozenset[str] = frozenset()) -> Plan:
    """Say of each action what a run would do now; the steps named in `fresh` run whatever is kept."""
    known: dict[str, Digest] = {}
    expected = cache(partial(_expected, store))
    rows: list[Row] = []
    todo: dict[str, Digest] = {}
    fetched: set[int] = set()
    for action in graph.actions:
        row, value = _row(graph, action, store, known, fresh, expected)
        if row.status is not Status.REUSED:
            if id(action.operation) in fetched:
                row = replace(row, download_bytes=0)  # what it needs comes with an earlier action
            fetched.add(id(action.operation))
        rows.append(row)
        if value is not None:
            known[action.id] = value
        todo[action.id] = _work(graph, action, todo)
    return Plan(
        workflow=graph.name,
        rows=tuple(rows),
        elided=graph.elided,
        notices=graph.notices,
        fingerprint=digest(
            "plan", "1", sorted(todo[row.action].hex for row in rows if row.status is not Status.REUSED)
        ).hex,
    )


def _row(
    graph: Graph,
    action: Action,
    store: Store,
    known: Mapping[str, Digest],
    fresh: frozenset[str],
    expected: Expected,
) -> tuple[Row, Digest | None]:
    unknown = tuple(dict.fromkeys(i.action for i in action.inputs() if i.action not in known))
    try:
        if action.step in fresh:
            raise NotReused(AGAIN)
        if unknown:
            kept = store.has_family(family(graph, action))
            return _runs(action, expected, Status.MAY_RUN if kept else Status.RUNS, unless=unknown), None
        entry = store.lookup(step_key(graph, action, known).key)
    except Refused as error:
        return _runs(action, expected, Status.RUNS, reason=str(error)), None
    if entry is None:
        return _runs(action, expected, Status.RUNS), None
    row = Row(
        action=action.id,
        label=action.operation.label,
        status=Status.REUSED,
        seconds=0.0,
        origin=versions_of(entry.origin)[0],
    )
    return row, entry.value


def _runs(
    action: Action, expected: Expected, status: Status, *, unless: tuple[str, ...] = (), reason: str = ""
) -> Row:
    return Row(
        action=action.id,
        label=action.operation.label,
        status=status,
        unless=unless if status is Status.MAY_RUN else (),
        seconds=expected(action.operation.timing_label(action.arguments)),
        download_bytes=action.operation.download_bytes(),
        reason=reason,
    )


def _expected(store: Store, label: str) -> float | None:
    took = store.timings(label)
    return median(took) if took else None


def _work(graph: Graph, action: Action, todo: Mapping[str, Digest]) -> Digest:
    """What an action contributes to the fingerprint: all that it does but its seed and its names."""
    try:
        return work(graph, action, todo)
    except Refused as error:
        arguments = filled(action.arguments, lambda leaf: _named(leaf, todo))
        return digest("work", "1", [action.operation.label, error.message, repr(arguments)])


def _named(leaf: Input | FileInput, todo: Mapping[str, Digest]) -> object:
    return leaf.digest if isinstance(leaf, FileInput) else (todo[leaf.action], leaf.item, leaf.field)
