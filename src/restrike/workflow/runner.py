"""Runs a graph: settles each action in order, publishes its files, keeps the manifest true as it goes.

It computes nothing itself and decides no key. A run that is killed leaves a manifest of what was finished.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from restrike.engine.counts import Executed
from restrike.errors import Cancelled, Refused, RestrikeError, typed
from restrike.keys import Digest, file_digest
from restrike.store.blobs import Damaged
from restrike.store.entry import Entry
from restrike.store.store import Store
from restrike.workflow.execution import Executor
from restrike.workflow.graph import Action, FileInput, Graph, Input, filled
from restrike.workflow.held import Held
from restrike.workflow.publishing import Publisher
from restrike.workflow.runs import FileRecord, Manifest, RunFolder, StepRecord, begun, with_step
from restrike.workflow.settling import Reuse, Settled, digest_of, origin_of, settle, versions_of
from restrike.workflow.values import field_of, ordered, revived

# A manifest of up to so many steps is written after each; a longer one takes a twentieth of the time at most.
_WRITTEN_EACH = 100
_PAUSE = 20


@dataclass(frozen=True, kw_only=True)
class RunBegan:
    """A new run has its folder, and nothing is in it yet."""

    run: str


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


RunEvent = RunBegan | StepBegan | StepEnded | Audited


@dataclass(kw_only=True)
class Run:
    """One run of one graph. `watch` sees its events, `check` may raise to cancel it.

    `earlier` are the finished steps of the same run before it was interrupted.
    """

    graph: Graph
    store: Store
    folder: RunFolder
    executor: Executor
    reuse: Reuse = field(default_factory=Reuse)
    audit: bool = False
    earlier: tuple[StepRecord, ...] = ()
    watch: Callable[[RunEvent], None] = lambda event: None
    check: Callable[[], None] = lambda: None
    held: Held = field(default_factory=Held)
    _manifest: Manifest = field(init=False)
    _publisher: Publisher = field(init=False)
    _digests: dict[str, Digest] = field(default_factory=dict, init=False)
    _entries: dict[str, Entry] = field(default_factory=dict, init=False)
    _repaired: dict[str, Settled] = field(default_factory=dict, init=False)
    _readers: Counter[str] = field(default_factory=Counter, init=False)
    _next_write: float = field(default=0.0, init=False)

    def execute(self) -> Manifest:
        """Run to the end; raises what made it fail, after noting it in the manifest."""
        graph = self.graph
        self._write(begun(self.folder, graph, self.earlier))
        self._readers.update(i.action for action in graph.actions for i in action.inputs())
        with self.store.holding(self.folder.name) as hold:
            self._publisher = Publisher(
                store=self.store, folder=self.folder, scope=graph.scope, hold=hold, check=self.check
            )
            for action in graph.actions:
                try:
                    self._step(action)
                except BaseException as error:
                    self._fail(action, error)
                    raise
        self._write(replace(self._manifest, status="finished", ended=time.time()))
        return self._manifest

    def _write(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self.folder.write(manifest)

    def _advance(self, manifest: Manifest) -> None:
        """Write the manifest after a step; one of very many steps not so often that the writing tells."""
        self._manifest = manifest
        began = time.monotonic()
        if len(manifest.steps) <= _WRITTEN_EACH or began >= self._next_write:
            self.folder.write(manifest)
            self._next_write = began + _PAUSE * (time.monotonic() - began)

    def _fail(self, action: Action, error: BaseException) -> None:
        failure = typed(error)
        status = "cancelled" if isinstance(failure, Cancelled) else "failed"
        record = StepRecord(
            action=action.id, label=action.operation.label, status=status, seconds=0.0, reason=failure.message
        )
        ended = replace(
            with_step(self._manifest, record),
            status=status,
            ended=time.time(),
            error=f"{action.id}: {failure.message}",
        )
        # A disk too full for the manifest must not hide what went wrong.
        with suppress(RestrikeError):
            self._write(ended)

    def _step(self, action: Action) -> None:
        self.check()
        self.watch(StepBegan(action=action))
        settled = self._settle(action, self.reuse)
        self._note(action, settled)
        if self.audit and settled.status == "reused":
            same = digest_of(self._compute(action)) == settled.digest
            self.watch(Audited(action=action.id, same=same))
        record = self._record(action, settled)
        self._release(action)
        self._advance(with_step(self._manifest, record))
        self.watch(StepEnded(record=record))

    def _settle(self, action: Action, reuse: Reuse) -> Settled:
        return settle(
            self.graph,
            action,
            self.store,
            self._digests,
            self._compute,
            reuse=reuse,
            origin=origin_of(self.folder.name, self.executor.versions(action)),
            check=self.check,
        )

    def _note(self, action: Action, settled: Settled) -> None:
        if settled.digest is not None:
            self._digests[action.id] = settled.digest
        if settled.entry is not None:
            self._entries[action.id] = settled.entry
            self._publisher.hold(settled.entry)
        if settled.status != "reused" and (self._readers[action.id] or action.saves):
            stored_bytes = settled.entry.size_bytes if settled.entry else None
            self.held.hold(action.id, settled.value, stored_bytes=stored_bytes)

    def _record(self, action: Action, settled: Settled) -> StepRecord:
        files: tuple[FileRecord, ...] = ()
        if action.saves:
            files = self._publisher.publish(
                action,
                settled.entry.document if settled.entry else None,
                lambda: self._value(action.id),
                versions_of(settled.origin)[1] or self.executor.versions(action),
            )
        # Writing the files may have found the kept value damaged, and computed it again.
        executed = self.executor.executed.get(action.id)
        return record_of(action, self._repaired.get(action.id, settled), files, executed)

    def _release(self, action: Action) -> None:
        """Forget values that no later action reads."""
        for read in action.inputs():
            self._readers[read.action] -= 1
            if self._readers[read.action] <= 0:
                self.held.drop(read.action)
        if not self._readers[action.id]:
            self.held.drop(action.id)

    def _value(self, name: str) -> Any:
        """The value of a settled action: in memory, from the store, or computed again when it is damaged."""
        if name not in self.held:
            entry = self._entries.get(name)
            if entry is None:
                raise Refused(
                    f"'{name}' was not kept, and is needed again in place of a damaged value; run again"
                )
            try:
                value = revived(self.store.read(entry))
            except Damaged as error:
                value = self._again(name, error)
            self.held.hold(name, value, stored_bytes=entry.size_bytes)
        return self.held[name]

    def _again(self, name: str, lost: Damaged) -> Any:
        """Compute what the store lost; the value must be the one that others were keyed by."""
        action = self.graph.action(name)
        settled = self._settle(action, Reuse(enabled=False))
        if settled.digest != self._digests[name]:
            raise Refused(
                f"the kept value of '{name}' was damaged and computing it again gave another; "
                "run again to use the new one"
            )
        if settled.entry is not None:
            self._entries[name] = settled.entry
            self._publisher.hold(settled.entry)
        repaired = replace(settled, reason=f"what was kept is damaged: {lost.message}")
        self._repaired[name] = repaired
        record = next((step for step in self._manifest.steps if step.action == name), None)
        if record is not None:
            again = record_of(action, repaired, record.files, self.executor.executed.get(name))
            self._write(with_step(self._manifest, again))
        return settled.value

    def _compute(self, action: Action) -> Any:
        # Values of other actions are ordered already, and are handed out as they are: see `_check_inputs`.
        arguments = filled(ordered(action.arguments), self._leaf)
        try:
            value = ordered(self.executor.run(action, arguments, self.check))
        except RestrikeError:
            raise
        except Exception as error:
            failure = typed(error)
            raise type(failure)(f"{action.operation.label}: {failure.message}") from error
        self._check_inputs(action)
        return value

    def _leaf(self, leaf: Input | FileInput) -> Any:
        if isinstance(leaf, FileInput):
            return ordered(self.executor.file(leaf))
        value = self._value(leaf.action)
        if leaf.item is not None:
            if not isinstance(value, list | tuple) or leaf.item >= len(value):
                size = len(value) if isinstance(value, list | tuple) else "no"
                raise Refused(f"'{leaf.action}' has {size} items, item {leaf.item} is asked for")
            value = value[leaf.item]
        return value if leaf.field is None else field_of(value, leaf.field, f"'{leaf.action}'")

    def _check_inputs(self, action: Action) -> None:
        """Refuse the result of an action that changed its inputs, or read a file that is not what it was."""
        for leaf in action.files():
            if file_digest(leaf.path) != leaf.digest:
                raise Refused(
                    f"'{leaf.shown}' changed since the run began; run again to use what it holds now"
                )
        for name in dict.fromkeys(i.action for i in action.inputs()):
            known = self._digests.get(name)
            if known is not None and name in self.held and digest_of(self.held[name]) != known:
                self.held.drop(name)
                raise Refused(
                    f"{action.operation.label} changed its input '{name}'; "
                    "a task must leave its arguments alone"
                )


def record_of(
    action: Action, settled: Settled, files: tuple[FileRecord, ...], executed: Executed | None
) -> StepRecord:
    """What the manifest says of a settled action; `executed` is how this run computed it, if it did."""
    return StepRecord(
        action=action.id,
        label=action.operation.label,
        status=settled.status,
        seconds=round(settled.seconds, 6),
        key=settled.key.key.digest.hex if settled.key else None,
        value=settled.digest.hex if settled.digest else None,
        origin=versions_of(settled.origin)[0] if settled.status == "reused" else "",
        reason=settled.reason,
        files=files,
        executed=None if settled.status == "reused" else executed,
    )
