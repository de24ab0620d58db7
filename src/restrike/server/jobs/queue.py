"""The queue: accepts jobs, gives them to workers, and takes their word on how they ended.

Every change of a state is a compare-and-set within one transaction that also writes its event, so nothing
is accepted without being kept and nothing ends twice. It starts no process and runs no job.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from restrike.errors import Conflict, NotFound, Refused
from restrike.keys import digest
from restrike.server.database.connect import Database
from restrike.server.database.schema import events, jobs
from restrike.server.jobs.clearing import Clearing
from restrike.server.jobs.measured import Measured
from restrike.server.jobs.model import Failure, Job, JobState, Outcome, Submission, WorkerFacts
from restrike.server.jobs.rows import event_row, failure_text, job_of, text_of
from restrike.server.jobs.switches import Switches
from restrike.server.routing import choose

KILLS_LIMIT = 3
"""A job that took this many workers with it is not given to another."""
_LOOKED_AT = 64
_BETWEEN = 4
"""How many events may come to a job from elsewhere (it is cancelled, moved) after a write."""
_ROOM_S = 1.0
"""Between two positions, which begin as times; far more than the smallest step of such a number."""
_WAITING = (jobs.c.priority.desc(), jobs.c.position)


class Queue:
    """The jobs of one database; any number of processes may use it at once."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock
        self._switches, self._clearing = Switches(database), Clearing(database)
        self._measured = Measured(database)

    def submit(self, asked: Submission) -> Job:
        """Accept a job: when this returns, it survives the death of any process.

        The same client id with the same body gives the job that was accepted before.

        Raises:
            Conflict: the client id was used for another body.
            Refused: the server is draining.
        """
        body = {"kind": asked.kind, "body": asked.body}
        body_digest = str(digest("job", "1", [str(asked.kind), text_of(asked.body)]))
        with self._database.write() as connection:
            earlier = self._by_client_id(connection, asked)
            if earlier is not None:
                if earlier.body_digest != body_digest:
                    raise Conflict(
                        f"client id '{asked.client_id}' was used for another job, {earlier.id}; use a new one"
                    )
                return earlier
            if self._switches.is_draining(connection):
                raise Refused("the server is draining and takes no more jobs; submit again later")
            now = self._clock()
            row = {
                "id": f"job-{secrets.token_hex(8)}",
                "client_id": asked.client_id,
                "workspace": asked.workspace,
                "kind": str(asked.kind),
                "body": text_of(body["body"]),
                "body_digest": body_digest,
                "label": asked.label,
                "needs": text_of(list(asked.needs)),
                "need_bytes": asked.need_bytes,
                "state": str(JobState.QUEUED),
                "priority": asked.priority,
                "position": now,
                "created": now,
                "attempt": 0,
                "kills": 0,
                "cancel_requested": False,
                "why": "",
                "record": "{}",
            }
            connection.execute(insert(jobs).values(row))
            self._tell(connection, row["id"], "state", {"state": JobState.QUEUED})
            return self._job(connection, row["id"])

    def _by_client_id(self, connection: Connection, asked: Submission) -> Job | None:
        if asked.client_id is None:
            return None
        found = connection.execute(
            select(jobs).where(jobs.c.workspace == asked.workspace, jobs.c.client_id == asked.client_id)
        ).one_or_none()
        return None if found is None else job_of(found)

    def job(self, name: str) -> Job:
        """A job by its id; raises NotFound: an unknown id is unknown, not done."""
        with self._database.read() as connection:
            return self._job(connection, name)

    def _job(self, connection: Connection, name: str) -> Job:
        row = connection.execute(select(jobs).where(jobs.c.id == name)).one_or_none()
        if row is None:
            raise NotFound(f"no job '{name}'")
        return job_of(row)

    def claim(self, worker: WorkerFacts, others: tuple[WorkerFacts, ...] = ()) -> Job | None:
        """The next job for a worker that runs none, now running in its name; None when nothing waits for it.

        One that runs in its name already is given once more: it was claimed, and a database that went away
        kept the answer from the worker. `others` are the live workers beside it.
        """
        took = self._measured.took() if others else {}
        with self._database.write() as connection:
            mine = (jobs.c.state == JobState.RUNNING, jobs.c.worker == worker.id)
            claimed = connection.execute(select(jobs).where(*mine).limit(1)).one_or_none()
            if claimed is not None:
                return job_of(claimed)
            if self._switches.is_paused(connection) or self._clearing.is_asked(connection, worker.id):
                return None
            # What does not fit is left out here, so that no number of such jobs hides those behind them.
            fitting = (jobs.c.state == JobState.QUEUED, jobs.c.need_bytes <= worker.memory_bytes)
            waiting = connection.execute(select(jobs).where(*fitting).order_by(*_WAITING).limit(_LOOKED_AT))
            now = self._clock()
            known = self._with_work(connection, others)
            choice = choose([job_of(row) for row in waiting], worker, known, now, took)
            if choice is None:
                return None
            job = choice.job
            changes = {
                "attempt": job.attempt + 1,
                "started": now,
                "worker": worker.id,
                "device": worker.device,
                "why": choice.why,
            }
            self._move(
                connection, job, JobState.RUNNING, changes, {"device": worker.device, "why": choice.why}
            )
            return self._job(connection, job.id)

    def _with_work(self, connection: Connection, workers: tuple[WorkerFacts, ...]) -> tuple[WorkerFacts, ...]:
        """Workers with whether they are free by the queue itself: what they told last may be a second old."""
        if not workers:
            return ()
        running = select(jobs.c.worker).where(jobs.c.state == JobState.RUNNING)
        busy = set(connection.execute(running).scalars())
        return tuple(replace(worker, is_free=worker.id not in busy) for worker in workers)

    def finish(self, name: str, attempt: int, outcome: Outcome) -> bool:
        """Take a worker's word on its attempt; False when the job is no longer that worker's."""
        with self._database.write() as connection:
            job = self._job(connection, name)
            if job.state is not JobState.RUNNING or job.attempt != attempt:
                return False
            changes = {
                "ended": self._clock(),
                "failure": failure_text(outcome.failure),
                "run": outcome.run or job.run,
                "record": text_of(dict(job.record) | dict(outcome.record)),
            }
            self._move(connection, job, outcome.state, changes, _told(outcome.failure))
            return True

    def began(self, name: str, attempt: int, run: str) -> None:
        """Note the run folder of an attempt, in which a later attempt goes on."""
        with self._database.write() as connection:
            connection.execute(
                update(jobs).where(jobs.c.id == name, jobs.c.attempt == attempt).values(run=run)
            )

    def tell(self, name: str, kind: str, data: Mapping[str, Any]) -> None:
        """Note that something happened to a job."""
        with self._database.write() as connection:
            self._tell(connection, name, kind, data)

    def has_told(self, name: str, happened: Sequence[tuple[str, Mapping[str, Any]]]) -> bool:
        """Whether just this was told of a job lately: asked when a database went away without an answer."""
        newest = events.c.sequence.desc()
        query = select(events.c.kind, events.c.data).where(events.c.job == name).order_by(newest)
        with self._database.read() as connection:
            found = [tuple(row) for row in connection.execute(query.limit(len(happened) + _BETWEEN))][::-1]
        told = [(kind, text_of(dict(data))) for kind, data in happened]
        return any(found[at : at + len(told)] == told for at in range(len(found) - len(told) + 1))

    def told(self, name: str, attempt: int, happened: Sequence[tuple[str, Mapping[str, Any]]]) -> bool:
        """Note in one transaction what happened to an attempt; False, and none of it, when that has ended."""
        with self._database.write() as connection:
            job = self._job(connection, name)
            if job.state is not JobState.RUNNING or job.attempt != attempt:
                return False
            now = self._clock()
            rows = [event_row(name, kind, data, now) for kind, data in happened]
            connection.execute(insert(events), rows)
            return True

    def cancel(self, name: str) -> Job:
        """Ask a job to stop: one that waits is cancelled now, one that runs at its next step.

        A job that has ended stays as it is. Raises NotFound.
        """
        with self._database.write() as connection:
            job = self._job(connection, name)
            if job.state is JobState.QUEUED:
                self._move(connection, job, JobState.CANCELLED, {"ended": self._clock()}, {})
            elif job.state is JobState.RUNNING and not job.cancel_requested:
                connection.execute(update(jobs).where(jobs.c.id == name).values(cancel_requested=True))
                self._tell(connection, name, "cancelling", {})
            return self._job(connection, name)

    def cancel_requested(self, name: str, attempt: int) -> bool:
        """Whether an attempt should stop; also when the job is no longer its."""
        with self._database.read() as connection:
            row = connection.execute(
                select(jobs.c.cancel_requested, jobs.c.attempt, jobs.c.state).where(jobs.c.id == name)
            ).one_or_none()
        return row is None or row.cancel_requested or row.attempt != attempt or row.state != JobState.RUNNING

    def orphaned(self, name: str, attempt: int, reason: str, *, killed: bool = True) -> Job | None:
        """The worker of an attempt is gone: its job waits again, or is set aside after too many deaths.

        `killed` says that the worker died of the job, as far as anyone can tell. None when the attempt had
        ended before.
        """
        with self._database.write() as connection:
            job = self._job(connection, name)
            if job.state is not JobState.RUNNING or job.attempt != attempt:
                return None
            kills = job.kills + int(killed)
            self._again_or_aside(connection, job, kills, reason)
            return self._job(connection, name)

    def _again_or_aside(self, connection: Connection, job: Job, kills: int, reason: str) -> None:
        told = {"reason": reason}
        if job.cancel_requested:
            self._move(connection, job, JobState.CANCELLED, {"ended": self._clock(), "kills": kills}, told)
        elif kills >= KILLS_LIMIT:
            failure = Failure(
                kind="Crashed",
                reason=f"its worker died {kills} times, the last time so: {reason}",
                remedy="look at the log of the worker; rerun the job when the cause is mended",
            )
            changes = {"ended": self._clock(), "kills": kills, "failure": failure_text(failure)}
            self._move(connection, job, JobState.QUARANTINED, changes, _told(failure))
        else:
            self._move(connection, job, JobState.QUEUED, {"kills": kills, "worker": None}, told)

    def refuse_unfit(self, room_bytes: int, reason: Callable[[Job], str], *, waited_s: float) -> int:
        """End as refused what has waited for so long and reads more weights than any worker has room for.

        Returns how many these were.
        """
        unfit = select(jobs).where(
            jobs.c.state == JobState.QUEUED,
            jobs.c.need_bytes > room_bytes,
            jobs.c.created <= self._clock() - waited_s,
        )
        # There is hardly ever one, and a writer keeps all others waiting.
        with self._database.read() as connection:
            if connection.execute(unfit.limit(1)).first() is None:
                return 0
        with self._database.write() as connection:
            found = [job_of(row) for row in connection.execute(unfit)]
            for job in found:
                remedy = "start the server with a larger device, then rerun the job"
                failure = Failure(kind="Refused", reason=reason(job), remedy=remedy)
                changes = {"ended": self._clock(), "failure": failure_text(failure)}
                self._move(connection, job, JobState.FAILED, changes, _told(failure))
            return len(found)

    def move(self, name: str, *, priority: int | None = None, before: str | None = None) -> Job:
        """Change where a waiting job stands: its priority, or right before another waiting job.

        Raises:
            NotFound: one of them does not exist.
            Conflict: one of them does not wait any more.
        """
        with self._database.write() as connection:
            job = self._waiting(connection, name)
            values: dict[str, Any] = {} if priority is None else {"priority": priority}
            if before is not None:
                other = self._waiting(connection, before)
                values |= {"priority": other.priority, "position": self._place_before(connection, job, other)}
            connection.execute(update(jobs).where(jobs.c.id == name).values(**values))
            self._tell(connection, name, "moved", values)
            return self._job(connection, name)

    def _place_before(self, connection: Connection, job: Job, other: Job) -> float:
        """A position right before another job's; where no number is left between, those ahead make room."""
        ahead = (
            jobs.c.state == JobState.QUEUED,
            jobs.c.priority == other.priority,
            jobs.c.position <= other.position,
            jobs.c.id.not_in((job.id, other.id)),
        )
        last = connection.execute(select(func.max(jobs.c.position)).where(*ahead)).scalar_one()
        low = other.position - 2 * _ROOM_S if last is None else last
        middle = (low + other.position) / 2
        if low < middle < other.position:
            return middle
        connection.execute(update(jobs).where(*ahead).values(position=jobs.c.position - _ROOM_S))
        return other.position - _ROOM_S / 2

    def _waiting(self, connection: Connection, name: str) -> Job:
        job = self._job(connection, name)
        if job.state is not JobState.QUEUED:
            raise Conflict(f"job '{name}' does not wait any more, it is {job.state}")
        return job

    def _move(
        self,
        connection: Connection,
        job: Job,
        state: JobState,
        changes: Mapping[str, Any],
        told: Mapping[str, Any],
    ) -> None:
        """The one place where a state changes: only from the state and attempt that were looked at."""
        done = connection.execute(
            update(jobs)
            .where(jobs.c.id == job.id, jobs.c.state == job.state, jobs.c.attempt == job.attempt)
            .values(state=str(state), **changes)
        )
        if done.rowcount != 1:
            raise Conflict(f"job '{job.id}' changed meanwhile")
        self._tell(connection, job.id, "state", {"state": state, **told})

    def _tell(self, connection: Connection, name: str, kind: str, data: Mapping[str, Any]) -> None:
        try:
            connection.execute(insert(events).values(event_row(name, kind, data, self._clock())))
        except IntegrityError as error:
            raise NotFound(f"no job '{name}'") from error


def _told(failure: Failure | None) -> dict[str, Any]:
    if failure is None:
        return {}
    return {"class": failure.kind, "reason": failure.reason, "step": failure.step, "remedy": failure.remedy}
