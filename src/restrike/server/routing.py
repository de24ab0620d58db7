"""Which waiting job a free worker takes: one pure function, asked by the queue and by whoever explains it.

It sees values only; it reads no clock and no database.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from restrike.server.jobs.model import Job, JobKind, WorkerFacts

Likeness = tuple[str, ...]
Took = Mapping[Likeness, Mapping[str, float]]
"""The median seconds of ended jobs by their likeness and by device."""

PATIENCE_S = 10.0
"""How long a job is left to a worker that already holds its weights, before any other may take it."""
HANDOVER_S = 2.0
"""How long a job is left to a worker that is free and would end it sooner; it looks every half second."""
OVERTAKING_S = 60.0
"""A job goes before those whose weights are not loaded if they were submitted at most so long before it.

So jobs that were submitted together are sorted by their weights, and no stream of others holds one up."""
SOONER = 0.8
"""A device is sooner whose measured seconds are at most this part of another's; less is noise."""
_NOTHING_MEASURED: Took = {}
_SIZES = ("width", "height", "frames", "steps", "items", "guidance_mode")
"""What of a generation's body decides how long it takes."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The job to take, and why this worker takes it."""

    job: Job
    why: str


def likeness(kind: JobKind, label: str, needs: Sequence[str], body: Mapping[str, Any]) -> Likeness:
    """Equal for jobs that take as long: workflows of one name, generations of one size, on equal weights."""
    sizes = [body.get(name) for name in _SIZES] if kind is JobKind.GENERATION else []
    return (str(kind), label, *needs, repr(sizes))


class _Fit(IntEnum):
    """What a worker has of what a job needs."""

    NOTHING = 0
    WEIGHTS = 1
    ARMED = 2


_REASONS = {
    _Fit.ARMED: "its weights are loaded there, with graphs or cells ready for it",
    _Fit.WEIGHTS: "its weights are loaded there",
    _Fit.NOTHING: "first in line when it was free",
}


@dataclass(frozen=True, kw_only=True)
class _Left:
    """That a job is left to another worker, and for how long; `late` is why it is taken all the same then."""

    worker: WorkerFacts
    patience_s: float
    late: str


def choose(
    jobs: Sequence[Job],
    worker: WorkerFacts,
    others: Sequence[WorkerFacts],
    now: float,
    took: Took = _NOTHING_MEASURED,
) -> Choice | None:
    """The job that `worker` should take of those that wait, given in the order of the queue.

    Priority goes before everything. Within one priority those jobs come first whose weights the worker holds,
    within `OVERTAKING_S` of the first in line; then the others that it has room for. The first of them is
    taken that is not left to another worker:

    * for `PATIENCE_S` to one that holds its weights, where this one does not;
    * for `HANDOVER_S` to one that is free and has more of what it needs, that is graphs or cells beside the
      weights, or has as much and by `took` ends such jobs sooner. Each free worker is counted on for one job.

    None when nothing suits. A job from the future, as a clock that was set back makes one, waited for long.
    """
    fitting = [job for job in jobs if job.need_bytes <= worker.memory_bytes]
    if not fitting:
        return None
    best = max(job.priority for job in fitting)
    rest = [other for other in others if other.id != worker.id]
    counted_on = set[str]()
    for job in _in_turn([job for job in fitting if job.priority == best], worker):
        seconds = took.get(likeness(job.kind, job.label, job.needs, job.body), {})
        left = _left(job, worker, rest, counted_on, seconds)
        if left is None:
            return Choice(job=job, why=_why(job, worker, rest, seconds))
        if not 0 <= now - job.created < left.patience_s:
            return Choice(job=job, why=left.late)
        counted_on.add(left.worker.id)
    return None


def _in_turn(level: Sequence[Job], worker: WorkerFacts) -> Iterator[Job]:
    """Jobs of one priority: first those whose weights the worker holds."""
    since = level[0].created + OVERTAKING_S
    early = [job for job in level if _fit(worker, job) and job.created < since]
    names = {job.id for job in early}
    yield from early
    yield from (job for job in level if job.id not in names)


def _left(
    job: Job,
    worker: WorkerFacts,
    rest: Sequence[WorkerFacts],
    counted_on: set[str],
    seconds: Mapping[str, float],
) -> _Left | None:
    """The worker that a job is left to, if there is one."""
    mine = _fit(worker, job)
    able = [other for other in rest if job.need_bytes <= other.memory_bytes]
    holder = next((other for other in able if not mine and _fit(other, job)), None)
    if holder is not None:
        late = f"{holder.device} holds its weights but was busy for {PATIENCE_S:.0f} s"
        return _Left(worker=holder, patience_s=PATIENCE_S, late=late)
    for other in able:
        if other.is_free and other.id not in counted_on and (better := _better(job, other, worker, seconds)):
            late = f"it waited for over {HANDOVER_S:.0f} s, and {other.device}, which {better}, did not look"
            return _Left(worker=other, patience_s=HANDOVER_S, late=late)
    return None


def _better(job: Job, other: WorkerFacts, worker: WorkerFacts, seconds: Mapping[str, float]) -> str:
    """In what another worker is better for a job; nothing when it is not."""
    mine, theirs = _fit(worker, job), _fit(other, job)
    if theirs > mine:
        return "has graphs or cells ready for it"
    return "ends such jobs sooner" if theirs == mine and _sooner(seconds, other, worker) else ""


def _why(job: Job, worker: WorkerFacts, rest: Iterable[WorkerFacts], seconds: Mapping[str, float]) -> str:
    """Why a worker takes a job that it leaves to nobody; it is shown beside the worker's device."""
    reason = _REASONS[_fit(worker, job)]
    slower = next(
        (o for o in rest if o.is_free and _fit(o, job) == _fit(worker, job) and _sooner(seconds, worker, o)),
        None,
    )
    if slower is None:
        return reason
    mine, theirs = seconds[worker.device], seconds[slower.device]
    return f"{reason}; such jobs took {mine:.1f} s there, {theirs:.1f} s on {slower.device}"


def _sooner(seconds: Mapping[str, float], one: WorkerFacts, other: WorkerFacts) -> bool:
    if one.device not in seconds or other.device not in seconds:
        return False
    return seconds[one.device] <= SOONER * seconds[other.device]


def _fit(worker: WorkerFacts, job: Job) -> _Fit:
    needs = set(job.needs)
    if not needs or not needs <= set(worker.resident):
        return _Fit.NOTHING
    return _Fit.ARMED if needs <= set(worker.armed) else _Fit.WEIGHTS
