"""Which waiting job a free worker takes: one pure function, asked by the queue and by whoever explains it.

It sees values only; it reads no clock and no database.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from restrike.server.jobs.model import Job, WorkerFacts

PATIENCE_S = 10.0
"""How long a job is left to a worker that already holds its weights, before any other may take it."""
OVERTAKING_S = 60.0
"""A job goes before those whose weights are not loaded if they were submitted at most so long before it.

So jobs that were submitted together are sorted by their weights, and no stream of others holds one up."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The job to take, and why this worker takes it."""

    job: Job
    why: str


def choose(
    jobs: Sequence[Job], worker: WorkerFacts, others: Sequence[WorkerFacts], now: float
) -> Choice | None:
    """The job that `worker` should take of those that wait, given in the order of the queue.

    Priority goes before everything. Within one priority the first job is taken whose weights the worker
    holds, within `OVERTAKING_S` of the first in line; else the first that it has room for, unless another
    live worker holds that job's weights and the job has waited for less than `PATIENCE_S`. None when nothing
    suits. A job from the future, which a clock that was set back makes, has waited for long.
    """
    fitting = [job for job in jobs if job.need_bytes <= worker.memory_bytes]
    if not fitting:
        return None
    best = max(job.priority for job in fitting)
    level = [job for job in fitting if job.priority == best]
    for job in level:
        if _holds(worker, job) and job.created - level[0].created < OVERTAKING_S:
            return Choice(job=job, why=f"{worker.device} holds its weights")
    for job in level:
        warm = next((other for other in others if _holds(other, job) and other.id != worker.id), None)
        if warm is None:
            return Choice(job=job, why=f"first in line, and {worker.device} was free")
        if not 0 <= now - job.created < PATIENCE_S:
            return Choice(job=job, why=f"{warm.device} holds its weights but was busy for {PATIENCE_S:.0f} s")
    return None


def _holds(worker: WorkerFacts, job: Job) -> bool:
    return bool(job.needs) and set(job.needs) <= set(worker.resident)
