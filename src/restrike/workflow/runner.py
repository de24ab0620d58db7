"""Runs a graph: settles each action in order, publishes its files, keeps the manifest true as it goes.

It computes nothing itself and decides no key. A run that is killed leaves a manifest of what was finished.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from restrike.errors import Cancelled, Refused, RestrikeError, typed
from restrike.keys import Digest
from restrike.store.blobs import Damaged
from restrike.store.entry import Entry
from restrike.store.store import Store
from restrike.store.values import pack
from restrike.workflow.execution import Executor
from restrike.workflow.graph import Action, FileInput, Graph, Input, filled
from restrike.workflow.publishing import publish_files
from restrike.workflow.runs import Manifest, RunFolder, StepRecord, begun, with_step
from restrike.workflow.settling import Reuse, Settled, origin_of, settle, versions_of
from restrike.workflow.values import field_of, revived


@dataclass(frozen=True, kw_only=True)
class StepBegan:
    """An action is looked at; it may turn out to be reused."""

    action: Action


@dataclass(frozen=True, kw_only=True)
class StepEnded:
    """An action is settled and its files are written."""

    record: StepRecord


@dataclass(frozen=True, kw_only=True)
class Audited:
    """A reused value was computed again; `same` says whether the bytes are equal."""

    action: str
    same: bool


RunEvent = StepBegan | StepEnded | Audited


@dataclass(kw_only=True)
class Run:
    """One run of one graph. `watch` sees its events, `check` may raise to cancel it."""

    graph: Graph
    store: Store
    folder: RunFolder
    executor: Executor
    reuse: Reuse = field(default_factory=Reuse)
    audit: bool = False
    watch: Callable[[RunEvent], None] = lambda event: None
    check: Callable[[], None] = lambda: None
    _digests: dict[str, Digest] = field(default_factory=dict, init=False)
    _entries: dict[str, Entry] = field(default_factory=dict, init=False)
    _values: dict[str, Any] = field(default_factory=dict, init=False)
    _readers: Counter[str] = field(default_factory=Counter, init=False)

    def execute(self) -> Manifest:
        """Run to the end; raises what made it fail, after noting it in the manifest."""
        manifest = begun(self.folder, self.graph.name, self.graph.seed, self.graph.variables)
        self.folder.write(manifest)
        self._readers.update(i.action for action in self.graph.actions for i in action.inputs())
        with self.store.holding(self.folder.name) as hold:
            for action in self.graph.actions:
                try:
                    manifest = with_step(manifest, self._step(action, hold))
                except BaseException as error:
                    self._fail(manifest, action, error)
                    raise
                self.folder.write(manifest)
        manifest = replace(manifest, status="finished", ended=time.time())
        self.folder.write(manifest)
        return manifest

    def _fail(self, manifest: Manifest, action: Action, error: BaseException) -> None:
        failure = typed(error)
        status = "cancelled" if isinstance(failure, Cancelled) else "failed"
        record = StepRecord(
            action=action.id, label=action.operation.label, status=status, seconds=0.0, reason=failure.message
        )
        ended = replace(
            with_step(manifest, record),
            status=status,
            ended=time.time(),
            error=f"{action.id}: {failure.message}",
        )
        self.folder.write(ended)

    def _step(self, action: Action, hold: Callable[[Entry], None]) -> StepRecord:
        self.check()
        self.watch(StepBegan(action=action))
        settled = settle(
            self.graph,
            action,
            self.store,
            self._digests,
            self._compute,
            reuse=self.reuse,
            origin=origin_of(self.folder.name, self.executor.versions()),
            check=self.check,
        )
        self._note(action, settled, hold)
        if self.audit and settled.status == "reused":
            same = pack(self._compute(action)).digest == settled.digest
            self.watch(Audited(action=action.id, same=same))
        record = self._record(action, settled)
        self._release(action)
        self.watch(StepEnded(record=record))
        return record

    def _note(self, action: Action, settled: Settled, hold: Callable[[Entry], None]) -> None:
        if settled.digest is not None:
            self._digests[action.id] = settled.digest
        if settled.entry is not None:
            self._entries[action.id] = settled.entry
            hold(settled.entry)
        if settled.status != "reused" and (self._readers[action.id] or action.saves):
            self._values[action.id] = settled.value

    def _record(self, action: Action, settled: Settled) -> StepRecord:
        origin, versions = versions_of(settled.origin)
        files = ()
        if action.saves:
            files = publish_files(
                action,
                lambda: self._value(action.id),
                settled.digest,
                self.store,
                self.folder,
                versions or self.executor.versions(),
                hold=lambda entry: None,
            )
        return StepRecord(
            action=action.id,
            label=action.operation.label,
            status=settled.status,
            seconds=round(settled.seconds, 6),
            key=settled.key.key.digest.hex if settled.key else None,
            value=settled.digest.hex if settled.digest else None,
            origin=origin if settled.status == "reused" else "",
            reason=settled.reason,
            files=files,
        )

    def _release(self, action: Action) -> None:
        """Forget values that no later action reads."""
        for read in action.inputs():
            self._readers[read.action] -= 1
            if self._readers[read.action] <= 0:
                self._values.pop(read.action, None)
        if not self._readers[action.id]:
            self._values.pop(action.id, None)

    def _value(self, name: str) -> Any:
        """The value of a settled action: in memory, from the store, or computed again when it is damaged."""
        if name not in self._values:
            try:
                self._values[name] = revived(self.store.read(self._entries[name]))
            except Damaged:
                self._values[name] = self._again(name)
        return self._values[name]

    def _again(self, name: str) -> Any:
        """Compute what the store lost; the value must be the one that others were keyed by."""
        action = self.graph.action(name)
        settled = settle(
            self.graph,
            action,
            self.store,
            self._digests,
            self._compute,
            reuse=Reuse(),
            origin=origin_of(self.folder.name, self.executor.versions()),
            check=self.check,
        )
        if settled.digest != self._digests[name]:
            raise Refused(
                f"the kept value of '{name}' was damaged and computing it again gave another; "
                "run again to use the new one"
            )
        return (
            settled.value
            if settled.entry is None or settled.value is not None
            else revived(self.store.read(settled.entry))
        )

    def _compute(self, action: Action) -> Any:
        arguments = filled(action.arguments, self._leaf)
        try:
            value = self.executor.run(action, arguments, self.check)
        except RestrikeError:
            raise
        except Exception as error:
            failure = typed(error)
            raise type(failure)(f"{action.operation.label}: {failure.message}") from error
        self._check_inputs(action)
        return value

    def _leaf(self, leaf: Input | FileInput) -> Any:
        if isinstance(leaf, FileInput):
            return self.executor.file(leaf)
        value = self._value(leaf.action)
        if leaf.item is not None:
            if not isinstance(value, list | tuple) or leaf.item >= len(value):
                size = len(value) if isinstance(value, list | tuple) else "no"
                raise Refused(f"'{leaf.action}' has {size} items, item {leaf.item} is asked for")
            value = value[leaf.item]
        return value if leaf.field is None else field_of(value, leaf.field, f"'{leaf.action}'")

    def _check_inputs(self, action: Action) -> None:
        """Refuse the result of an action that changed what it was given."""
        for name in dict.fromkeys(i.action for i in action.inputs()):
            known, value = self._digests.get(name), self._values.get(name)
            if known is not None and name in self._values and pack(value).digest != known:
                del self._values[name]
                raise Refused(
                    f"{action.operation.label} changed its input '{name}'; "
                    "a task must leave its arguments alone"
                )
