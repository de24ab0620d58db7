"""Beside a running job: heartbeats, whether it should stop, and a word when it is silent for long.

It has a thread of its own, so that a long step does not look like a hang. It computes nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from restrike.engine.counts import CardCounters
from restrike.errors import RestrikeError
from restrike.server.jobs.queue import Queue
from restrike.server.worker.attempt import Attempt
from restrike.server.worker.lines import Orders
from restrike.server.worker.memory import rss_bytes
from restrike.server.worker.telling import Telling
from restrike.server.workers import BUSY, IDLE, Report, WorkerRow, Workers

BEAT_S = 1.0
CHECK_S = 0.25
"""How often a running job's cancellation is looked for, beside at every order."""
SILENCE_S = 30.0


class Attendance:
    """The worker as others see it. `attend` and `part` say what it runs, `counted` what its engine did."""

    def __init__(
        self,
        worker: WorkerRow,
        workers: Workers,
        jobs: Queue,
        orders: Orders,
        complain: Callable[[str], None],
        counted: Callable[[], tuple[CardCounters, ...]] = tuple,
    ) -> None:
        self.worker, self._counted = worker, counted
        self._workers, self._jobs, self._orders, self._complain = workers, jobs, orders, complain
        self._attempt: Attempt | None = None
        self._silences = 0
        self._report = Report()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="attendance", daemon=True)

    def begin(self) -> None:
        """Register the worker, and beat from now on."""
        self._workers.register(self.worker)
        self._thread.start()

    def end(self) -> None:
        """Beat no more."""
        self._ended.set()
        self._orders.check.set()
        self._thread.join()

    def leave(self) -> None:
        """Let the worker, which beats no more, be forgotten."""
        self._workers.leave(self.worker.id)

    def attend(self, attempt: Attempt) -> None:
        """An attempt begins."""
        with self._lock:
            self._attempt, self._silences = attempt, 0

    def part(self) -> None:
        """The attempt has ended."""
        with self._lock:
            self._attempt = None

    def holds(self, *, resident: tuple[str, ...], armed: tuple[str, ...], resident_bytes: int) -> None:
        """What the engine holds now, told with the next heartbeat."""
        self._report = Report(resident=resident, armed=armed, resident_bytes=resident_bytes)
        self.worker = replace(self.worker, report=self._report)

    def beat(self) -> None:
        """Tell what it holds now, before the next heartbeat does."""
        self._workers.beat(self._now(None))

    def _run(self) -> None:
        next_beat = time.monotonic()
        while not self._ended.is_set():
            self._orders.check.wait(CHECK_S)
            self._orders.check.clear()
            with self._lock:
                attempt = self._attempt
            try:
                if attempt is not None:
                    self._look_at(attempt)
                if time.monotonic() >= next_beat:
                    self._workers.beat(self._now(attempt))
                    next_beat = time.monotonic() + BEAT_S
            except RestrikeError as error:
                self._complain(error.message)

    def _look_at(self, attempt: Attempt) -> None:
        if attempt.is_stopped:
            return
        job = attempt.job
        attempt.watching.note_memory()
        if self._orders.stopping.is_set() or self._jobs.cancel_requested(job.id, job.attempt):
            attempt.stop()
        self._note_silence(attempt.watching.telling, attempt.watching.step)

    def _note_silence(self, telling: Telling, step: str | None) -> None:
        """Tell, once in a while, that nothing was told: which is no fault, but worth a look."""
        silent_s = time.monotonic() - telling.last_s
        if silent_s < SILENCE_S:
            self._silences = 0
        elif silent_s >= SILENCE_S * (self._silences + 1):
            self._silences += 1
            telling.aside("stall", {"step": step, "silent_s": round(silent_s, 1)})

    def _now(self, attempt: Attempt | None) -> WorkerRow:
        report = replace(self._report, rss_bytes=rss_bytes(), cards=self._counted())
        if attempt is None:
            return replace(self.worker, state=IDLE, report=report)
        report = replace(
            report,
            job=attempt.job.id,
            attempt=attempt.job.attempt,
            step_s=attempt.watching.longest_step_s,
        )
        return replace(self.worker, state=BUSY, report=report)
