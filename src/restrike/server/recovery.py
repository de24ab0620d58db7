"""Finds workers whose server is gone, ends them, and gives their jobs back to the queue.

A worker of another machine is judged by its silence alone.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from restrike.server.jobs.history import History
from restrike.server.jobs.model import Job, JobState
from restrike.server.jobs.queue import Queue
from restrike.server.workers import WorkerRow, Workers, no_room
from restrike.store.owner import Owner

SILENT_S = 120.0
STALLED_S = 120.0
"""How long a job may wait that no worker has room for: others may be about to come."""
_RUNNING_LIMIT = 10_000


class Recovery:
    """Recovers what belongs to nobody; what belongs to a live server is left to it."""

    def __init__(self, jobs: Queue, history: History, workers: Workers) -> None:
        self._jobs, self._history, self._workers = jobs, history, workers

    def running(self) -> tuple[Job, ...]:
        """All jobs that run now."""
        return self._history.jobs(state=JobState.RUNNING, limit=_RUNNING_LIMIT)

    def give_back(self, worker: str, reason: str, *, killed: bool) -> tuple[Job, ...]:
        """Let the jobs of a worker that has ended wait again; it is known no more after this."""
        found = [
            self._jobs.orphaned(job.id, job.attempt, reason, killed=killed)
            for job in self.running()
            if job.worker == worker
        ]
        self._workers.leave(worker)
        return tuple(job for job in found if job is not None)

    def recover(self) -> tuple[Job, ...]:
        """End the workers of dead servers, then give back their jobs and those of workers nobody knows."""
        # The jobs first: a worker registers before it claims, so one that is missing later was gone before.
        running = self.running()
        rows = {row.id: row for row in self._workers.all()}
        # All of them before anything is written: one that is frozen may hold the database's lock.
        gone = [row for row in rows.values() if self._is_gone(row)]
        back: list[Job] = []
        for row in gone:
            back += self.give_back(row.id, "the server ended while it ran", killed=False)
        for job in running:
            if job.worker not in rows:
                reason = "its worker is not known any more"
                again = self._jobs.orphaned(job.id, job.attempt, reason, killed=False)
                back += [] if again is None else [again]
        return tuple(back)

    def refuse_unfit(self) -> int:
        """End jobs for which there has been no room on any worker for long; returns how many these were.

        Every worker that is known counts, also one of another server that was not heard lately.
        """
        workers = self._workers.all()
        if not workers:
            return 0
        room_bytes = max(worker.memory_bytes for worker in workers)
        return self._jobs.refuse_unfit(
            room_bytes, lambda job: no_room(workers, job.need_bytes) or "", waited_s=STALLED_S
        )

    def _is_gone(self, row: WorkerRow) -> bool:
        """Whether a worker has no server; one that is still there is ended first."""
        worker = Owner.parse(row.owner)
        if worker.host != Owner.here().host:
            return time.time() - row.heartbeat > SILENT_S
        if not Owner.parse(row.server).is_dead():
            return False
        _end(worker)
        return True


def _end(worker: Owner) -> None:
    """Kill a worker with all that it started, and wait until it is gone."""
    while not worker.is_dead():
        with suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)
        time.sleep(0.01)
