"""The pool: one worker process per device, started, watched, replaced when it ends, and ended with it.

It lives in the server's process, on a thread of its own, and runs no job. Workers take jobs by themselves.
"""

from __future__ import annotations

import logging
import os
import secrets
import selectors
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import make_url

from restrike.errors import Crashed, RestrikeError, Shortfall, typed
from restrike.server.database.connect import Database
from restrike.server.devices import Slot
from restrike.server.endpoints.origin import Origin
from restrike.server.jobs.history import History
from restrike.server.jobs.queue import Queue
from restrike.server.place import Place
from restrike.server.recovery import Recovery
from restrike.server.worker.child import Child
from restrike.server.worker.exits import Cause, Exit
from restrike.server.worker.lines import DRAIN, LOOK, STOP
from restrike.server.worker.options import WorkerOptions
from restrike.server.workers import WorkerRow, Workers
from restrike.store.owner import Owner

TICK_S = 0.5
_RECOVER_S = 10.0
_PREVIEWS_KEPT_S = 3600.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class PoolOptions:
    """How workers run, and when they are given up.

    A worker has hung that was not heard for `hang_s` and has not computed meanwhile. A cancelled job's worker
    is killed after `grace_s`, or twice the longest denoising step of the job where that is longer. One that
    dies without having worked for `settled_s` is started again after a second, then two, up to
    `backoff_limit_s`.
    """

    precision: str | None = None
    capture: str = "auto"
    cells: str | None = None
    mint: str | None = None
    allow_code: tuple[Path, ...] = ()
    endpoints: tuple[Origin, ...] = ()
    preview_every: int = 5
    growth_bytes: int = 1 << 30
    grace_s: float = 10.0
    hang_s: float = 20.0
    start_s: float = 180.0
    settled_s: float = 30.0
    backoff_limit_s: float = 30.0


@dataclass(frozen=True, kw_only=True)
class Seat:
    """One device of the pool as it stands: its worker, and how the one before ended."""

    device: str
    worker: str | None
    pid: int | None
    starts: int
    last_exit: Exit | None


@dataclass(kw_only=True)
class _Seat:
    """One device, and what is known of its worker."""

    slot: Slot
    rank: int
    child: Child | None = None
    starts: int = 0
    deaths: int = 0
    start_at_s: float = 0.0
    last_exit: Exit | None = None
    asked: tuple[str | None, float, float] | None = None
    """The job that should have stopped, since when, and when its worker was heard last before."""
    heard: tuple[float, float, float] = field(default=(0.0, 0.0, 0.0))
    """Its last heartbeat, what it had computed when that or its computing last changed, and when that was."""


class Pool:
    """The workers of one server. `happened` is called, on a thread of the pool, when events were written."""

    def __init__(
        self,
        place: Place,
        slots: tuple[Slot, ...],
        options: PoolOptions | None = None,
        happened: Callable[[], None] = lambda: None,
    ) -> None:
        self._place, self._options, self._happened = place, options or PoolOptions(), happened
        self._database = Database(place.database_url)
        self._workers, self._jobs = Workers(self._database), Queue(self._database)
        self._history = History(self._database)
        self._recovery = Recovery(self._jobs, self._history, self._workers)
        self._seats = [_Seat(slot=slot, rank=rank) for rank, slot in enumerate(slots)]
        self._owner = str(Owner.here())
        self._selector = selectors.DefaultSelector()
        self._woken, self._wake = os.pipe()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pool", daemon=True)
        self._next_recovery_s = 0.0

    def start(self) -> None:
        """Recover what a dead server left, then start a worker for each device; returns at once."""
        self._recovery.recover()
        os.set_blocking(self._wake, False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread.start()

    def wait_ready(self, timeout_s: float) -> None:
        """Return when every worker takes jobs.

        Raises:
            Crashed: a worker ended instead.
            Shortfall: it takes longer than `timeout_s`.
        """
        end_s = time.monotonic() + timeout_s
        while time.monotonic() < end_s:
            here = {row.id for row in self._workers.all()}
            seats = self.seats()
            if all(seat.worker in here for seat in seats):
                return
            for seat in seats:
                if seat.last_exit is not None and seat.last_exit.cause.is_death:
                    raise Crashed(f"the worker of {seat.device} did not start: {seat.last_exit.reason}")
            time.sleep(0.05)
        raise Shortfall(f"not all workers were ready within {timeout_s:.0f} s")

    def look(self) -> None:
        """Let all workers look: there is a new job, one was cancelled, or the queue goes on."""
        for seat in self._seats:
            if (child := seat.child) is not None:
                child.order(LOOK)

    def seats(self) -> tuple[Seat, ...]:
        """Each device as it stands."""
        return tuple(
            Seat(
                device=seat.slot.device,
                worker=seat.child.name if seat.child else None,
                pid=seat.child.pid if seat.child else None,
                starts=seat.starts,
                last_exit=seat.last_exit,
            )
            for seat in self._seats
        )

    def stop(self, *, drain: bool = False, timeout_s: float = 30.0) -> None:
        """End all workers: after their jobs with `drain`, else at the next step, and those jobs wait again.

        Who has not ended after `timeout_s` is killed. Stopping it again does nothing.
        """
        if self._ending.is_set():
            return
        self._ending.set()
        for seat in self._seats:
            if (child := seat.child) is not None:
                child.order(DRAIN if drain else STOP)
        with suppress(BlockingIOError):
            os.write(self._wake, LOOK)
        self._thread.join(timeout_s)
        for seat in self._seats:
            if (child := seat.child) is not None:
                child.kill(Exit(cause=Cause.STOPPED, reason="the server was stopped"))
        self._thread.join()
        self._database.close()
        self._selector.close()
        os.close(self._woken)
        os.close(self._wake)

    def _run(self) -> None:
        next_tick_s = 0.0
        while not (self._ending.is_set() and all(seat.child is None for seat in self._seats)):
            for key, _ in self._selector.select(TICK_S):
                self._read(key)
            if time.monotonic() >= next_tick_s:
                next_tick_s = time.monotonic() + TICK_S
                # A database that is away for a while ends no pool.
                with suppress(RestrikeError):
                    self._tick()

    def _read(self, key: selectors.SelectorKey) -> None:
        seat: _Seat | None = key.data
        if seat is None:
            os.read(self._woken, 64)
        elif seat.child is not None and seat.child.drained():
            self._happened()
        elif seat.child is not None:
            self._unlisten(seat.child)
            seat.child.settle()
            with suppress(RestrikeError):
                self._reap(seat)

    def _tick(self) -> None:
        rows = {row.id: row for row in self._workers.all()}
        cancelled = self._history.cancelled_on()
        # All of them before anything is written: one that is frozen may hold the database's lock.
        for seat in self._seats:
            if seat.child is not None:
                row = rows.get(seat.child.name)
                self._watch(seat, seat.child, row)
                self._watch_cancelled(seat, seat.child, row, cancelled)
        for seat in self._seats:
            if seat.child is None:
                self._start(seat)
            else:
                self._reap(seat)
        if time.monotonic() >= self._next_recovery_s:
            self._next_recovery_s = time.monotonic() + _RECOVER_S
            self._clean()
            if self._recovery.recover():
                self.look()
            # Not before all devices have their workers: the largest may be the last to come.
            are_here = all(seat.child and seat.child.name in rows for seat in self._seats)
            if are_here and self._recovery.refuse_unfit():
                self._happened()

    def _start(self, seat: _Seat) -> None:
        if self._ending.is_set() or time.monotonic() < seat.start_at_s:
            return
        url, environment = _apart(self._place.database_url, seat.slot.environment(os.environ))
        try:
            child = Child(self._options_of(seat, url), self._place.log(seat.slot.device), environment)
        except OSError as error:
            # No process, no file, no room: all of these pass, and no other seat is at fault.
            seat.deaths += 1
            seat.start_at_s = time.monotonic() + max(
                1.0, backoff_s(seat.deaths, self._options.backoff_limit_s)
            )
            _log.warning("no worker for %s: %s", seat.slot.device, typed(error).message)
            return
        seat.child, seat.asked = child, None
        seat.starts += 1
        seat.heard = (0.0, 0.0, time.monotonic())
        self._selector.register(child.nudges, selectors.EVENT_READ, seat)

    def _options_of(self, seat: _Seat, database: str) -> WorkerOptions:
        chosen, slot = self._options, seat.slot
        on_cpu = slot.kind == "cpu"
        return WorkerOptions(
            name=f"{slot.device.replace(':', '-')}-{secrets.token_hex(4)}",
            database=database,
            data=self._place.folder,
            device=slot.device,
            torch_device=slot.torch_device,
            server=self._owner,
            share=sum(other.slot.kind == "cpu" for other in self._seats) if on_cpu else 1,
            growth_bytes=chosen.growth_bytes,
            preview_every=chosen.preview_every,
            # The server itself stays; of workers the last goes first.
            oom_score=300 + 10 * min(seat.rank, 60),
            nice=5 if on_cpu else 0,
            precision=chosen.precision,
            capture=chosen.capture,
            cells=chosen.cells,
            mint=chosen.mint,
            allow_code=chosen.allow_code,
            endpoints=chosen.endpoints,
        )

    def _reap(self, seat: _Seat) -> None:
        """Take note of the end of a worker that has ended, and give back its job."""
        child = seat.child
        if child is None or (found := child.exit()) is None:
            return
        # Until this is written the seat keeps its dead worker, so that a later tick tries again.
        # One that ends in order has no job by then: what it still runs has ended it, whatever its status.
        killed = found.cause.is_death or child.ended_for is None
        self._recovery.give_back(child.name, found.reason, killed=killed)
        self._unlisten(child)
        child.close()
        seat.child, seat.last_exit = None, found
        worked = time.monotonic() - child.started_s >= self._options.settled_s
        seat.deaths = (0 if worked else seat.deaths) + found.cause.is_death
        seat.start_at_s = time.monotonic() + backoff_s(seat.deaths, self._options.backoff_limit_s)
        self._happened()
        self.look()
        self._start(seat)

    def _unlisten(self, child: Child) -> None:
        with suppress(KeyError):
            self._selector.unregister(child.nudges)

    def _watch(self, seat: _Seat, child: Child, row: WorkerRow | None) -> None:
        """Kill a worker that hangs."""
        now_s = time.monotonic()
        heartbeat, cpu_s = (row.heartbeat if row else 0.0), child.cpu_s()
        if (heartbeat, cpu_s) != seat.heard[:2]:
            seat.heard = (heartbeat, cpu_s, now_s)
        elif now_s - seat.heard[2] > (self._options.hang_s if row else self._options.start_s):
            reason = f"it was not heard and computed nothing for {now_s - seat.heard[2]:.0f} s"
            child.kill(Exit(cause=Cause.HUNG, reason=reason))

    def _watch_cancelled(
        self, seat: _Seat, child: Child, row: WorkerRow | None, cancelled: frozenset[str]
    ) -> None:
        if row is None or not self._should_stop(row, cancelled):
            seat.asked = None
            return
        now_s, job = time.monotonic(), row.report.job
        if seat.asked is None or seat.asked[0] != job:
            seat.asked = job, now_s, row.heartbeat
        _, since_s, heartbeat = seat.asked
        # A job that has ended is in its worker's report until the next one, which says nothing against it.
        runs_on = row.id in cancelled or row.heartbeat > heartbeat
        grace_s = max(self._options.grace_s, 2 * row.report.step_s)
        if runs_on and now_s - since_s > grace_s:
            reason = f"the job was cancelled and did not stop within {grace_s:.0f} s"
            child.kill(Exit(cause=Cause.CANCELLED, reason=reason))

    def _should_stop(self, row: WorkerRow, cancelled: frozenset[str]) -> bool:
        # What the worker says it runs may be another's by now; and one that went deaf at once says nothing.
        said = row.report.job
        return row.id in cancelled if said is None else self._jobs.cancel_requested(said, row.report.attempt)

    def _clean(self) -> None:
        """Remove previews that nobody looks at any more."""
        before = time.time() - _PREVIEWS_KEPT_S
        with suppress(OSError):
            for folder in self._place.previews.iterdir():
                if folder.stat().st_mtime < before:
                    shutil.rmtree(folder, ignore_errors=True)


def backoff_s(deaths: int, limit_s: float) -> float:
    """How long to wait before the next start, after so many deaths in a row."""
    return min(2.0 ** min(deaths - 2, 32), limit_s) if deaths > 1 else 0.0


def _apart(url: str, environment: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The address without its password, which others could read on a command line, and where that goes."""
    address = make_url(url)
    if address.password is None:
        return url, dict(environment)
    bare = address._replace(password=None).render_as_string(hide_password=False)
    return bare, {**environment, "PGPASSWORD": str(address.password)}
