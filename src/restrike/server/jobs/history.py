"""What is asked of a queue without changing it: lists, events after a number, counts; and what is forgotten.

Only ended jobs are ever forgotten, oldest first.
"""

from __future__ import annotations

from sqlalchemy import and_, delete, func, or_, select

from restrike.server.database.connect import Database
from restrike.server.database.schema import events, jobs
from restrike.server.jobs.model import Job, JobEvent, JobState
from restrike.server.jobs.rows import event_of, job_of

_FINAL = tuple(str(state) for state in JobState if state.is_final)


class History:
    """The jobs of one database, looked at."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def jobs(
        self,
        *,
        state: JobState | None = None,
        workspace: str | None = None,
        before: tuple[float, str] | None = None,
        limit: int = 50,
    ) -> tuple[Job, ...]:
        """The newest jobs first; `before` is the (created, id) of the last one that was seen."""
        query = select(jobs).order_by(jobs.c.created.desc(), jobs.c.id.desc()).limit(limit)
        if state is not None:
            query = query.where(jobs.c.state == str(state))
        if workspace is not None:
            query = query.where(jobs.c.workspace == workspace)
        if before is not None:
            created, name = before
            query = query.where(
                or_(jobs.c.created < created, and_(jobs.c.created == created, jobs.c.id < name))
            )
        with self._database.read() as connection:
            return tuple(job_of(row) for row in connection.execute(query))

    def of_client(self, workspace: str, client_id: str) -> Job | None:
        """The job that a client submitted under an id of its own."""
        query = select(jobs).where(jobs.c.workspace == workspace, jobs.c.client_id == client_id)
        with self._database.read() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else job_of(row)

    def has_ended(self, name: str) -> bool:
        """Whether nothing more happens to a job; also when it was forgotten."""
        with self._database.read() as connection:
            state = connection.execute(select(jobs.c.state).where(jobs.c.id == name)).scalar_one_or_none()
        return state is None or state in _FINAL

    def cancelled_on(self) -> frozenset[str]:
        """The workers whose running job was asked to stop."""
        query = select(jobs.c.worker).where(jobs.c.state == JobState.RUNNING, jobs.c.cancel_requested)
        with self._database.read() as connection:
            return frozenset(connection.execute(query).scalars())

    def ahead_of(self, job: Job) -> int:
        """How many waiting jobs stand before a waiting one."""
        query = select(func.count()).where(
            jobs.c.state == JobState.QUEUED,
            or_(
                jobs.c.priority > job.priority,
                and_(jobs.c.priority == job.priority, jobs.c.position < job.position),
            ),
        )
        with self._database.read() as connection:
            return connection.execute(query).scalar_one()

    def counts(self) -> dict[str, int]:
        """How many jobs there are in each state."""
        query = select(jobs.c.state, func.count()).group_by(jobs.c.state)
        with self._database.read() as connection:
            found = {row[0]: row[1] for row in connection.execute(query)}
        return {str(state): found.get(str(state), 0) for state in JobState}

    def events(self, *, after: int = 0, job: str | None = None, limit: int = 500) -> tuple[JobEvent, ...]:
        """What happened after an event's number, in order; of one job or of all."""
        query = select(events).where(events.c.sequence > after).order_by(events.c.sequence).limit(limit)
        if job is not None:
            query = query.where(events.c.job == job)
        with self._database.read() as connection:
            return tuple(event_of(row) for row in connection.execute(query))

    def latest(self, job: str, kind: str) -> JobEvent | None:
        """The newest event of a kind of a job."""
        query = (
            select(events)
            .where(events.c.job == job, events.c.kind == kind)
            .order_by(events.c.sequence.desc())
            .limit(1)
        )
        with self._database.read() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else event_of(row)

    def last_sequence(self) -> int:
        """The number of the newest event; 0 when nothing happened yet."""
        with self._database.read() as connection:
            return connection.execute(select(func.max(events.c.sequence))).scalar_one() or 0

    def drop(self, name: str) -> bool:
        """Forget one ended job with its events; False when there is none. Its run folder stays."""
        with self._database.write() as connection:
            ended = delete(jobs).where(jobs.c.id == name, jobs.c.state.in_(_FINAL))
            return connection.execute(ended).rowcount == 1

    def forget(self, *, keep: int, kept_events: int) -> int:
        """Forget ended jobs but the newest `keep`, and of each ended job events but its newest `kept_events`.

        Returns the number of jobs that were forgotten; their run folders stay.
        """
        with self._database.write() as connection:
            old = (
                select(jobs.c.id)
                .where(jobs.c.state.in_(_FINAL))
                .order_by(jobs.c.ended.desc())
                .offset(keep)
                .subquery()
            )
            gone = connection.execute(delete(jobs).where(jobs.c.id.in_(select(old.c.id)))).rowcount
            ranked = select(
                events.c.sequence,
                func.row_number()
                .over(partition_by=events.c.job, order_by=events.c.sequence.desc())
                .label("age"),
                jobs.c.state,
            ).join(jobs, jobs.c.id == events.c.job)
            rows = ranked.subquery()
            surplus = select(rows.c.sequence).where(rows.c.age > kept_events, rows.c.state.in_(_FINAL))
            connection.execute(delete(events).where(events.c.sequence.in_(surplus)))
        return gone
