"""Beside a running job: heartbeats, whether it should stop, and a word when it is silent for long.

It has a thread of its own, so that a long step does not look like a hang. It computes nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

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
    """The worker as others see it. `attend` and `part` say what it runs; `held` is asked at every heartbeat.

    `held` reports what the engine holds and did by now, which changes while a job runs.
    """

    def __init__(
        self,
        worker: WorkerRow,
        workers: Workers,
        jobs: Queue,
        orders: Orders,
        complain: Callable[[str], None],
        held: Callable[[], Report] = Report,
    ) -> None:
        self._row, self._held = worker, held
        self._workers, self._jobs, self._orders, self._complain = workers, jobs, orders, complain
        self._attempt: Attempt | None = None
        self._silences = 0
        self._complaint = ""
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="attendance", daemon=True)

    @property
    def worker(self) -> WorkerRow:
        """The worker with what it holds now."""
        return replace(self._row, report=self._report())

    def begin(self) -> None:
        """Register the worker, and beat from now on."""
        self._workers.register(self._row)
        self._thread.start()

    def end(self) -> None:
        """Beat no more."""
        self._ended.set()
        self._orders.check.set()
        self._thread.join()

    def leave(self) -> None:
        """Let the worker, which beats no more, be forgotten."""
        self._workers.leave(self._row.id)

    def attend(self, attempt: Attempt) -> None:
        """An attempt begins."""
        with self._lock:
            self._attempt, self._silences = attempt, 0

    def part(self) -> None:
        """The attempt has ended."""
        with self._lock:
            self._attempt = None

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

    def _report(self) -> Report:
        try:
            report = self._held()
        except RestrikeError as error:
            # A checkpoint is gone from the disk: what it is cannot be told any more, which is said once.
            if error.message != self._complaint:
                self._complaint = error.message
                self._complain(error.message)
            report = Report()
        return replace(report, rss_bytes=rss_bytes())

    def _now(self, attempt: Attempt | None) -> WorkerRow:
        if attempt is None:
            return replace(self.worker, state=IDLE)
        report = replace(
            self._report(),
            job=attempt.job.id,
            attempt=attempt.job.attempt,
            step_s=attempt.watching.longest_step_s,
        )
        return replace(self._row, state=BUSY, report=report)
