"""The worker itself: claims one job after another, runs it, and says how it ended.

A failed job costs it nothing; it ends when it is told to, when its server is gone, or when it has grown.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from restrike.errors import NotFound, RestrikeError, Shortfall
from restrike.server.jobs.clearing import Clearing
from restrike.server.jobs.model import Job, JobKind, JobState, Outcome
from restrike.server.jobs.queue import Queue
from restrike.server.worker.attempt import Attempt, Doing
from restrike.server.worker.attendance import Attendance
from restrike.server.worker.calling import Calling
from restrike.server.worker.ending import failed
from restrike.server.worker.lines import Orders
from restrike.server.worker.machine import WorkerMachine
from restrike.server.worker.memory import Growth, rss_bytes
from restrike.server.worker.options import RECYCLED
from restrike.server.worker.previews import Previews
from restrike.server.worker.running import Running
from restrike.server.worker.telling import Telling
from restrike.server.worker.watching import Watching
from restrike.server.workers import Workers
from restrike.workflow.session import Session

LOOK_S = 0.5
"""How often an idle worker looks at the queue without being told to."""
_PAUSE_S = 1.0


class Worker:
    """One worker. `run` returns its process's exit status."""

    def __init__(
        self,
        machine: WorkerMachine,
        jobs: Queue,
        workers: Workers,
        clearing: Clearing,
        attendance: Attendance,
        orders: Orders,
        nudge: Callable[[], None],
    ) -> None:
        self._machine = machine
        self._jobs, self._workers, self._clearing = jobs, workers, clearing
        self._attendance, self._orders, self._nudge = attendance, orders, nudge
        self._growth = Growth(machine.options.growth_bytes)

    def run(self) -> int:
        """Work until told to end, or until a fresh process is better."""
        self._machine.engine  # noqa: B018  (loads torch before the first job has to wait for it)
        self._attendance.begin()
        self._nudge()
        try:
            status = self._until_told()
        finally:
            self._attendance.end()
            self._machine.close()
        # Not where it fails: its job counts that only when it is given back by who saw the process die.
        self._attendance.leave()
        return status

    def _until_told(self) -> int:
        while not self._orders.draining.is_set():
            job = self._next()
            if job is not None and not self._work(job):
                return RECYCLED
        return 0

    def _next(self) -> Job | None:
        """A job, or None after a while without one."""
        self._orders.look.clear()
        try:
            mine = self._attendance.worker.facts
            others = tuple(row.facts for row in self._workers.live() if row.id != mine.id)
            job = self._jobs.claim(mine, others)
        except RestrikeError as error:
            complain(error.message)
            time.sleep(_PAUSE_S)
            return None
        if job is not None:
            self._nudge()
        elif not self._has_cleared():
            self._orders.look.wait(LOOK_S)
        return job

    def _has_cleared(self) -> bool:
        """Whether a wish to clear the memory waited, which is then done; none is looked for beside a job."""
        name = self._attendance.worker.id
        try:
            if not self._clearing.waits(name):
                return False
            freed_bytes = self._machine.clear()
            self._attendance.beat()
            self._clearing.done(name, freed_bytes)
        except RestrikeError as error:
            complain(error.message)
            return False
        return True

    def _work(self, job: Job) -> bool:
        """Run a job to its end; whether this process is fit for another."""
        self._end(job, *self._outcome(job))
        self._nudge()
        return self._is_fit()

    def _outcome(self, job: Job) -> tuple[Outcome, bool]:
        """How the job ended, and whether it was only interrupted because the server stops."""
        try:
            session = self._machine.session(job.workspace)
        except RestrikeError as error:
            return failed(error, None, {}), False
        attempts: list[Attempt] = []
        telling = Telling(self._jobs, job, self._nudge, lambda: attempts[0].stop())
        watching = Watching(
            telling=telling,
            previews=Previews(self._machine.place, job.id),
            began=lambda run: self._note_run(job, run),
            run_name=job.run,
        )
        attempt = Attempt(job, self._doing(job, session, watching), watching)
        attempts.append(attempt)
        self._attendance.attend(attempt)
        outcome = attempt.run()
        self._attendance.part()
        try:
            telling.close()
        except RestrikeError as error:
            outcome = failed(error, None, outcome.record)
        return outcome, outcome.state is JobState.CANCELLED and self._orders.stopping.is_set()

    def _doing(self, job: Job, session: Session, watching: Watching) -> Doing:
        machine = self._machine
        preview_every = machine.options.preview_every
        if job.kind is not JobKind.ENDPOINT:
            return Running(job=job, session=session, watching=watching, preview_every=preview_every)
        return Calling(
            job=job,
            workspace=session.workspace,
            servings=machine.servings,
            watching=watching,
            preview_every=preview_every,
        )

    def _note_run(self, job: Job, run: str) -> None:
        """Note where the job's run lies, before anything is in it; a database that is away is waited for."""
        while True:
            try:
                self._jobs.began(job.id, job.attempt, run)
                return
            except Shortfall as error:
                complain(error.message)
                time.sleep(_PAUSE_S)

    def _end(self, job: Job, outcome: Outcome, interrupted: bool) -> None:
        """Note the end; a database that cannot be written is tried until it can, or the server is gone."""
        while True:
            try:
                if interrupted:
                    # It waits again, unless someone had cancelled it as well.
                    self._jobs.orphaned(job.id, job.attempt, "the server was stopped", killed=False)
                else:
                    self._jobs.finish(job.id, job.attempt, outcome)
                return
            except NotFound:
                return  # It was deleted meanwhile, with all that was told of it.
            except RestrikeError as error:
                complain(error.message)
                time.sleep(_PAUSE_S)

    def _is_fit(self) -> bool:
        """Whether this process shall take another job, after one has ended."""
        if self._growth.exceeded(rss_bytes(), self._machine.weights_bytes()):
            complain("grew beyond its bound beside weights; a fresh process takes its place")
            return False
        return self._machine.is_sound()


def complain(message: str) -> None:
    """A line in the worker's log."""
    print(message, file=sys.stderr, flush=True)  # noqa: T201
