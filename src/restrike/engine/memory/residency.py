"""Which components are on one device: loaded when used, evicted by value when others need the room.

All cards of an engine on that device share it. It computes nothing, and never lets go of what is in use, nor
of weights that it could not bring back.
"""

from __future__ import annotations

import gc
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from restrike.engine.memory.budget import Budget, Reservation
from restrike.engine.memory.host import Host, Parked
from restrike.engine.memory.limits import Limit, limit_of
from restrike.engine.memory.parts import Part, Place
from restrike.engine.memory.report import Snapshot, resident
from restrike.engine.memory.sizes import resident_bytes, shown, storages_of
from restrike.engine.memory.turn import Turn
from restrike.errors import Refused, Shortfall

FOR_COMPONENT = "room for a component"
FOR_READING = "main memory for reading a component"
REMEDY = "raise the limit (RESTRIKE_MEMORY, memory_limit_bytes) or ask for less at once"


class Asleep(Refused):
    """A component was put to sleep and is needed; wake it first."""


@dataclass(kw_only=True)
class Usage:
    """Which components were used."""

    parts: set[Part] = field(default_factory=set)

    def note(self, part: Part, turn: Turn) -> None:
        """Take note of a component that was brought and pinned."""
        self.parts.add(part)


@dataclass(kw_only=True)
class MeasuredUsage(Usage):
    """Which components were used, and the most bytes of them that were in use at once."""

    most_bytes: int = 0

    def note(self, part: Part, turn: Turn) -> None:
        """Take note of a component that was brought and pinned."""
        self.parts.add(part)
        self.most_bytes = max(self.most_bytes, _bytes_of(turn.pinned))


def residency_on(device: torch.device, limit_bytes: int | None = None) -> Residency:
    """An empty residency on a device, with main memory behind it where that is another memory."""
    return Residency(device, limit_of(device, limit_bytes), Host() if device.type == "cuda" else None)


class Residency:
    """The components of all cards on one device.

    `host` is the main memory that they are moved to; None where the device has no memory of its own, and
    what is evicted is loaded anew.
    """

    def __init__(
        self,
        device: torch.device,
        limit: Limit,
        host: Host | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.device = device
        self.budget = Budget(limit)
        self.turn = Turn()
        self._host = host
        self.clock = clock
        self._parts: list[Part] = []
        self._age = 0.0
        self._evictions: Counter[str] = Counter()
        self._holding = threading.Lock()
        self._usage = Usage()
        self._aside: Callable[[], Any] = nullcontext

    def adopt(self, part: Part) -> None:
        """Take charge of a component that was not loaded yet."""
        self._parts.append(part)

    def use(self, part: Part) -> Any:
        """The component, on the device, pinned until the innermost turn of the calling thread ends.

        Raises:
            Asleep: it was put to sleep.
            Shortfall: there is no room for it beside what is in use.
        """
        with self.turn.lock:
            if part.asleep:
                raise Asleep(f"{part} is asleep; call wake('{part.name}') on the loaded card to use it again")
            if part.place is not Place.DEVICE:
                self._bring(part)
            self._touch(part)
            return part.component

    def bring(self, parts: Sequence[Part]) -> None:
        """Bring these to the device, all or none: on a failure those that came go back where they were."""
        with self.turn:
            came: list[tuple[Part, Place]] = []
            try:
                for part in parts:
                    before = part.place
                    self.use(part)
                    came.append((part, before))
            except BaseException:
                for part, before in came:
                    if before is not Place.DEVICE:
                        self._put_away(part, "its set did not come whole")
                raise

    def room(self, what: str, size_bytes: int) -> Reservation:
        """Bytes set aside until they are released, made free by eviction if needed; under the turn.

        Raises:
            Shortfall: what is in use leaves too little.
        """
        self._make_room(size_bytes, what, "room for activations")
        return self.budget.claim(what, size_bytes)

    def watch(self) -> Usage:
        """Note what is used of components from now on, beginning with what is pinned; under the turn."""
        usage = Usage(parts=self.turn.pinned)
        self._usage, self._aside = usage, nullcontext
        return usage

    def measure(self, aside: Callable[[], Any]) -> MeasuredUsage:
        """As `watch`, and the bytes too.

        `aside` is entered around whatever is loaded meanwhile, so that nobody takes it for activations.
        """
        pinned = self.turn.pinned
        usage = MeasuredUsage(parts=pinned, most_bytes=_bytes_of(pinned))
        self._usage, self._aside = usage, aside
        return usage

    def hold(self, parts: Sequence[Part]) -> Callable[[], None]:
        """Let nobody evict these, from when they come, until what is returned is called, once."""
        # Not under the turn: who lets requests in and out must not wait for a step.
        with self._holding:
            for part in parts:
                part.holds += 1

        def let_go() -> None:
            with self._holding:
                for part in parts:
                    part.holds -= 1

        return let_go

    def keep(self, parts: Iterable[Part]) -> None:
        """Pin those of these that are on the device, which will be used next; under the turn."""
        for part in parts:
            if part.place is Place.DEVICE:
                self.turn.pin(part)

    def sleep(self, parts: Sequence[Part]) -> None:
        """Put components to sleep: off the device, and not to be used until they are woken.

        Weights that no file holds go to main memory; where that is the device's own they stay in it.

        Raises:
            Refused: one is held by a running request; none is put to sleep then.
        """
        with self.turn:
            for part in parts:
                if part.holds or part in self.turn.pinned:
                    raise Refused(f"{part} is in use by a running request; let it end, or cancel it, first")
            for part in parts:
                self._lay_down(part)

    def wake(self, parts: Sequence[Part]) -> None:
        """Wake components, all or none; those that were on the device when they fell asleep are again."""
        with self.turn:
            slept = [part for part in parts if part.asleep]
            for part in slept:
                part.asleep = False
            try:
                self.bring([part for part in slept if part.slept_here])
            except BaseException:
                for part in slept:
                    part.asleep = True
                raise

    def clear(self) -> int:
        """Let go of every component that its files can bring back and that nobody holds, in main memory too.

        What sleeps stays asleep. Returns the bytes of the device that are free by this.
        """
        with self.turn:
            before_bytes = self.budget.free_bytes
            with self.turn:  # what is touched by this is pinned no longer
                for part in [part for part in self._idle() if part.altered]:
                    part.rest()
            for part in [part for part in self._idle() if not part.altered]:
                part.moved("cleared")
                part.drop()
            gc.collect()  # Modules that hold themselves in a cycle are gone only now.
            return self.budget.free_bytes - before_bytes

    def _idle(self) -> list[Part]:
        """What is in memory and neither held, nor used at once, nor asleep."""
        return [part for part in self._unused() if part.component is not None and not part.asleep]

    def _unused(self) -> list[Part]:
        """What is neither held by a request nor used at once."""
        pinned = self.turn.pinned
        return [part for part in self._parts if not part.holds and part not in pinned]

    def altered(self, part: Part, altered: bool) -> None:
        """Note that a component's weights are now other than its files', or theirs again; count them anew."""
        with self.turn.lock:
            part.altered = altered
            if part.place is Place.DEVICE:
                self._measure(part)

    def staying(self) -> tuple[Part, ...]:
        """The components that cannot leave, for their weights are in no file and fit nowhere else."""
        return tuple(part for part in list(self._parts) if part.place is Place.DEVICE and self._stays(part))

    def snapshot(self) -> Snapshot:
        """What is where now; waits for nobody."""
        now_s = self.clock()
        return Snapshot(
            device=str(self.device),
            limit=self.budget.limit,
            resident_bytes=self.budget.resident.n_bytes,
            reserved=dict(self.budget.reserved()),
            residents=tuple(resident(part, now_s) for part in list(self._parts)),
            evictions=dict(self._evictions),
        )

    def _lay_down(self, part: Part) -> None:
        if part.asleep:
            return
        part.asleep, part.slept_here = True, part.place is Place.DEVICE
        if part.slept_here and self._stays(part):
            part.moved("asleep")
        elif part.slept_here:
            self._put_away(part, "asleep")

    def _touch(self, part: Part) -> None:
        # GreedyDual-Size (Cao and Irani 1997), as the store's: worth = age + seconds to bring back / bytes.
        part.priority = self._age + part.bring_s / max(part.size_bytes, 1)
        part.used_s = self.clock()
        self.turn.pin(part)
        self._usage.note(part, self.turn)

    def _bring(self, part: Part) -> None:
        with self._aside():
            self._make_room(part.size_bytes, str(part), FOR_COMPONENT)
            began = self.clock()
            if part.place is Place.HOST:
                self._fetch(part)
                part.bring_s = self.clock() - began
            else:
                self._make_host_room(part)
                part.component, part.bring_s = part.load()
                part.first_s = part.first_s or began
                part.loads += 1
            part.place = Place.DEVICE
            self._measure(part)
            try:
                self._make_room(0, str(part), FOR_COMPONENT, keep=part)
            except Shortfall:
                # The guess was too low, and nothing else may go.
                self._put_away(part, "larger than its files")
                raise self._shortfall(part.size_bytes, str(part)) from None

    def _fetch(self, part: Part) -> None:
        assert self._host is not None
        assert part.parked is not None
        try:
            self._host.give(part.component, self.device, part.parked)
        except BaseException:
            # Whatever has come goes back, so that it is in one place again.
            again = self._host.take(part.component, self.device)
            part.parked = Parked(part.parked.places | again.places)
            raise
        part.parked = None

    def _measure(self, part: Part) -> None:
        part.measured_bytes = resident_bytes(part.component, self.device)
        self.budget.resident.note(storages_of(part.component, self.device))

    def _make_room(self, size_bytes: int, what: str, reason: str, keep: Part | None = None) -> None:
        while self.budget.free_bytes < size_bytes:
            idle = [part for part in self._evictable() if part is not keep]
            if not idle and self._any_rests():
                continue
            if not idle:
                gc.collect()  # Modules that hold themselves in a cycle are gone only now.
                if self.budget.free_bytes >= size_bytes:
                    return
                raise self._shortfall(size_bytes, what)
            least = min(idle, key=lambda part: part.priority)
            self._age = max(self._age, least.priority)
            self._put_away(least, reason)
            self._evictions[reason] += 1

    def _make_host_room(self, part: Part) -> None:
        """Let go of what is parked in main memory until a component can be read, which passes through it."""
        host = self._host
        if host is None:
            return
        while host.lacks(part.size_bytes):
            parked = [each for each in self._parts if each.place is Place.HOST and not each.altered]
            if not parked:
                raise Shortfall(
                    f"no room in main memory to read {part}: it has {shown(part.size_bytes)}, and "
                    f"{shown(host.free_bytes() or 0)} are free; end what else takes memory there"
                )
            least = min(parked, key=lambda each: each.priority)
            least.drop()
            self._evictions[FOR_READING] += 1
            host.let_go()

    def _any_rests(self) -> bool:
        """Whether any component that must stay for its weights has those of its files again."""
        pinned, usage = self.turn.pinned, self._usage
        tired = [part for part in self.staying() if part not in pinned and not part.holds]
        self._usage = Usage()  # What is touched for it is none of the phase's business.
        try:
            for part in tired:
                part.rest()
        finally:
            self._usage = usage
        return not all(part.altered for part in tired)

    def _evictable(self) -> list[Part]:
        return [
            part
            for part in self._unused()
            if part.place is Place.DEVICE and part.measured_bytes and not self._stays(part)
        ]

    def _stays(self, part: Part) -> bool:
        """Whether its weights are in no file and there is no other memory for them."""
        return part.altered and (self._host is None or not self._host.has_room(part.size_bytes))

    def _put_away(self, part: Part, reason: str) -> None:
        part.moved(reason)
        part.parked = self._parked(part)
        if part.parked is not None:
            part.place = Place.HOST
        else:
            part.drop()

    def _parked(self, part: Part) -> Parked | None:
        """The component, moved to main memory; None where it does not go there and can be built anew."""
        if self._host is None or not self._host.has_room(part.size_bytes):
            return None
        try:
            return self._host.take(part.component, self.device)
        except (RuntimeError, MemoryError):
            # It was as free as the system said, and could not be had page-locked.
            if part.altered:
                raise
            return None

    def _shortfall(self, size_bytes: int, what: str) -> Shortfall:
        there = [part for part in self._parts if part.place is Place.DEVICE and part.measured_bytes]
        used = [f"{part}, whose weights no file holds" if self._stays(part) else str(part) for part in there]
        free, limit = max(self.budget.free_bytes, 0), self.budget.limit
        beside = f" beside what is in use ({'; '.join(used)})" if used else ""
        lacking = f"no room on {self.device} for {what}: it needs {shown(size_bytes)}"
        return Shortfall(f"{lacking}, and {shown(free)} of {limit} are free{beside}; {REMEDY}")


def _bytes_of(parts: Iterable[Part]) -> int:
    return sum(part.size_bytes for part in parts)
