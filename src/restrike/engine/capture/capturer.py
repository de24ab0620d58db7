"""The capturer of a resident card: which steps a graph answers, and what a graph has to go through first.

Shared by all requests of the card. The step that a request asked for always gets eager's output, or that of
a graph that was proved equal and measured faster.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils._python_dispatch import _get_current_dispatch_mode

from restrike.engine.capture.backend import Backend, Step
from restrike.engine.capture.contents import ContentsMemo
from restrike.engine.capture.counters import WARMING, Break, CaptureCounters, Tally
from restrike.engine.capture.entry import Entry, label_of, plan_values, sight
from restrike.engine.capture.host_values import TooMuch
from restrike.engine.capture.key import MODULE_CHANGED, Signature, key_of, signature_of
from restrike.engine.capture.limits import CaptureLimits
from restrike.engine.capture.making import Making, told
from restrike.engine.memory.budget import Share
from restrike.loops.contract import StepPlan, Tensors

MOST_RESTARTS = 8
"""So often a signature begins anew for a module that is another one before a graph was made of it."""


@dataclass(frozen=True, kw_only=True)
class Stepped:
    """A step's outputs, and why it ran eagerly; no `broke` when a replay answered."""

    outputs: Tensors
    broke: Break | None = None


@dataclass(frozen=True, kw_only=True)
class _Held:
    """What graphs there are; `armed` are those that answer."""

    graphs: int = 0
    armed: int = 0
    bytes: int = 0


def unversioned(component: str) -> Hashable:
    """The version of weights that are never synced."""
    return None


class Capturer:
    """The graphs of one card on one device.

    `version_of` tells the version of a component's weights, for a backend that folds their values; `share`
    is what graphs may take of the device's memory, beside the limits.
    """

    def __init__(
        self,
        backend: Backend | None,
        limits: CaptureLimits | None = None,
        *,
        absent: str = "off",
        named: bool = False,
        version_of: Callable[[str], Hashable] = unversioned,
        share: Share | None = None,
    ) -> None:
        self.backend = backend
        self.absent = Break(kind=absent)
        """Why there is no backend, when there is none."""
        self.named = named
        """Whether the user asked for this backend by name, and so wants to hear when it did not engage."""
        self._limits = limits or CaptureLimits()
        self._version_of = version_of
        self._share = share
        self._entries: OrderedDict[Signature, Entry] = OrderedDict()
        self._contents = ContentsMemo()
        self._tally = Tally()
        self._held = _Held()
        self._lock = threading.RLock()

    @property
    def counters(self) -> CaptureCounters:
        """What was done so far, and what is held now."""
        held = self._held
        return self._tally.snapshot(graphs=held.graphs, armed=held.armed, bytes_held=held.bytes)

    def explain(self) -> tuple[str, ...]:
        """One line a signature: armed with its figures, or why not."""
        if self.backend is None:
            return (f"capture: {self.absent}",)
        with self._lock:
            return tuple(f"capture {self.backend.name}, {entry}" for entry in self._entries.values())

    def evict(self, component: str | None, reason: str) -> None:
        """Forget all that was captured of a component, or of all; what was blocked may be tried again."""
        with self._lock:
            for entry in list(self._entries.values()):
                if component in (None, entry.key.signature.component):
                    self._drop(entry, reason)
            self._contents.forget(component)

    def broke(self, reason: Break) -> None:
        """Count a step that ran eagerly for a reason outside this class."""
        self._tally.broke(reason)

    def run(self, scope: tuple[str, ...], plan: StepPlan, module: object, step: Step) -> Stepped:
        """Execute a planned step: by a replay when there is an armed graph for it, else eagerly."""
        if self.backend is None:
            return self._eagerly(plan, step, self.absent)
        reason = _unsuitable(plan, module, self.backend)
        if reason is not None:
            return self._eagerly(plan, step, reason)
        assert isinstance(module, nn.Module)
        with self._lock:
            began = time.perf_counter()
            entry = self._entry(self.backend, scope, plan, module)
            self._watch(entry, plan, module)
            entry.look_s = time.perf_counter() - began
            looking = _looking_on() if entry.is_warm else None
            if entry.reason is None and looking is None:
                return self._advance(self.backend, entry, plan, module, step)
        return self._eagerly(plan, step, entry.reason or looking or WARMING)

    def _eagerly(self, plan: StepPlan, step: Step, reason: Break) -> Stepped:
        self._tally.broke(reason)
        return Stepped(outputs=step(plan.inputs), broke=reason)

    def _entry(self, backend: Backend, scope: tuple[str, ...], plan: StepPlan, module: nn.Module) -> Entry:
        """The entry of this step; one that was made on other weights is let go first."""
        signature = signature_of(backend, scope, plan)
        entry = self._entries.get(signature)
        if entry and entry.needed_bytes and self._fits(entry.needed_bytes):
            # What was in the way is gone.
            self._drop(entry, "over budget")
            entry = None
        if entry is None or entry.reason is None:
            version = self._version_of(plan.component) if backend.folds_values else None
            key = key_of(signature, self._contents.of(plan.component, module), version)
            stale = entry.key.stale_against(key) if entry else None
            restarts = 0
            if entry and stale:
                restarts = entry.restarts + 1 if stale == MODULE_CHANGED and not entry.captured else 0
                self._drop(entry, stale)
            if entry is None or stale:
                entry = self._entries[signature] = Entry(key=key, label=label_of(plan), restarts=restarts)
                self._forget_oldest()
            if entry.restarts > MOST_RESTARTS:
                self._refuse(entry, Break(kind="blocked", detail=f"{stale} between one step and the next"))
        self._entries.move_to_end(signature)
        return entry

    def _watch(self, entry: Entry, plan: StepPlan, module: nn.Module) -> None:
        """Refuse a signature whose host values differ from those of its first step."""
        if entry.reason is not None:
            return
        try:
            if entry.sight is None:
                entry.sight = sight(plan, module)
                return
            differs = entry.sight.difference(plan_values(plan))
        except TooMuch as error:
            differs = str(error)
        if differs:
            self._refuse(entry, Break(kind="blocked", detail=differs))

    def _advance(
        self, backend: Backend, entry: Entry, plan: StepPlan, module: nn.Module, step: Step
    ) -> Stepped:
        """Take the entry one step further; the outputs are right whatever becomes of it."""
        making = Making(backend=backend, limits=self._limits, entry=entry, make_room=self._make_room)
        try:
            stepped = self._replayed(entry, plan) or self._made(making, plan, module, step)
        except BaseException:
            # An interrupt, or a step that fails by itself.
            self._drop(entry, "interrupted")
            raise
        finally:
            self._count_held()
        return stepped or self._eagerly(plan, step, entry.reason or WARMING)

    def _replayed(self, entry: Entry, plan: StepPlan) -> Stepped | None:
        """The outputs of an armed graph; None when there is none, or it failed and is gone."""
        if entry.captured is None or not entry.is_armed:
            return None
        try:
            outputs = entry.captured.run(plan.inputs)
        except Exception as error:
            self._refuse(entry, Break(kind="blocked", detail=f"a replay failed: {told(error)}"))
            return None
        entry.replays += 1
        self._tally.replayed()
        return Stepped(outputs=outputs)

    def _made(self, making: Making, plan: StepPlan, module: nn.Module, step: Step) -> Stepped | None:
        if making.entry.reason is not None:
            return None
        had = making.entry.captured
        outputs, broke = making.advance(plan, module, step)
        if making.entry.captured is not had and had is None:
            self._tally.captured()
        self._tally.broke(broke)
        return Stepped(outputs=outputs, broke=broke)

    def _refuse(self, entry: Entry, reason: Break) -> None:
        if entry.captured is not None:
            self._tally.evicted(reason.kind)
        entry.refuse(reason)
        self._count_held()

    def _drop(self, entry: Entry, reason: str) -> None:
        if entry.captured is not None:
            self._tally.evicted(reason)
        entry.free()
        self._entries.pop(entry.key.signature, None)
        self._count_held()

    def _make_room(self, needed_bytes: int) -> str | None:
        """Let the longest unused graphs go until one more fits; says why it cannot, and lets none go then."""
        limits = self._limits
        if needed_bytes > limits.max_bytes or limits.max_graphs < 1:
            return f"a graph of {needed_bytes:,} bytes, where {limits.max_bytes:,} are allowed"
        if self._refusal(needed_bytes - self._count_held().bytes):
            return f"a graph of {self._refusal(needed_bytes)}"
        for entry in list(self._entries.values()):
            if self._fits(needed_bytes):
                break
            if entry.captured is not None:
                self._drop(entry, "over budget")
        return None

    def _fits(self, needed_bytes: int) -> bool:
        """Whether one more graph fits beside those that there are."""
        held = self._count_held()
        within = held.bytes + needed_bytes <= self._limits.max_bytes and held.graphs < self._limits.max_graphs
        return within and not self._refusal(needed_bytes)

    def _refusal(self, more_bytes: int) -> str | None:
        return self._share.refusal(more_bytes) if self._share else None

    def _forget_oldest(self) -> None:
        while len(self._entries) > self._limits.max_signatures:
            self._drop(next(iter(self._entries.values())), "over budget")

    def _count_held(self) -> _Held:
        held = [entry for entry in self._entries.values() if entry.captured]
        self._held = _Held(
            graphs=len(held),
            armed=sum(entry.is_armed for entry in held),
            bytes=sum(entry.bytes for entry in held),
        )
        if self._share is not None:
            self._share.take(self._held.bytes)
        return self._held


def _unsuitable(plan: StepPlan, module: object, backend: Backend) -> Break | None:
    """Why no graph could answer for this step, whatever its signature."""
    if not plan.capturable:
        return Break(kind="not capturable", detail="the step says so")
    if not isinstance(module, nn.Module):
        return Break(kind="not capturable", detail=f"component '{plan.component}' is no torch module")
    if torch.is_grad_enabled():
        return Break(kind="gradients are on")
    if torch._C._autograd._profiler_enabled():  # pyright: ignore[reportAttributeAccessIssue]
        return Break(kind="profiling")
    elsewhere = next((name for name, each in plan.inputs.items() if each.device != backend.device), None)
    if elsewhere is not None:
        place = plan.inputs[elsewhere].device
        return Break(kind="not capturable", detail=f"input '{elsewhere}' is on {place}, not {backend.device}")
    return None


def _looking_on() -> Break | None:
    """That a mode watches operations, as a profiler does; it would see none of a replay's."""
    mode = _get_current_dispatch_mode()
    return Break(kind="profiling", detail=type(mode).__name__) if mode is not None else None
