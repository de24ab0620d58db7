"""Events are kept in order, before the end of their job, and only while the job is its worker's."""

from __future__ import annotations

import pytest

from restrike.errors import Crashed, NotFound, RestrikeError, Shortfall
from restrike.server.database.connect import Database
from restrike.server.jobs.history import History
from restrike.server.jobs.model import Job, JobKind, Submission, WorkerFacts
from restrike.server.jobs.queue import Queue
from restrike.server.worker import telling
from restrike.server.worker.telling import Telling

_WORKER = WorkerFacts(id="w", device="cpu:0", memory_bytes=1 << 30)


def _running(queue: Queue) -> Job:
    queue.submit(Submission(kind=JobKind.GENERATION, body={"card": "digits"}, workspace="default"))
    job = queue.claim(_WORKER)
    assert job is not None
    return job


def test_all_is_kept_in_order_when_it_closes(database: Database) -> None:
    queue = Queue(database)
    job, nudges, lost = _running(queue), [], []
    told = Telling(queue, job, lambda: nudges.append(1), lambda: lost.append(1))
    for number in range(200):
        told.tell("progress", {"done": number})
    told.later(lambda: ("preview", {"file": "x"}))

    told.close()

    events = History(database).events(job=job.id)[2:]
    assert [event.data["done"] for event in events[:-1]] == list(range(200))
    assert events[-1].kind == "preview"
    assert 0 < len(nudges) <= 201
    assert not lost


def test_what_is_no_longer_the_workers_is_not_told(database: Database) -> None:
    queue = Queue(database)
    job, lost = _running(queue), []
    told = Telling(queue, job, lambda: None, lambda: lost.append(1))
    queue.orphaned(job.id, job.attempt, "taken away", killed=False)
    told.tell("progress", {"done": 1})

    told.close()

    assert lost == [1]
    assert "progress" not in {event.kind for event in History(database).events(job=job.id)}


class _Failing(Queue):
    """A queue whose database fails so many times."""

    times = 0
    failure: RestrikeError = Shortfall("the database is away")

    def told(self, *arguments: object) -> bool:  # type: ignore[override]
        if self.times:
            self.times -= 1
            raise self.failure
        return super().told(*arguments)  # type: ignore[arg-type]


def _failing(database: Database, times: int, failure: RestrikeError) -> tuple[Telling, Job, list[int]]:
    queue = _Failing(database)
    job, lost = _running(queue), []
    queue.times, queue.failure = times, failure
    return Telling(queue, job, lambda: None, lambda: lost.append(1)), job, lost


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telling, "_PAUSE_S", 0.0)


@pytest.mark.parametrize("times", [1, 10 * telling._TRIES])
def test_a_database_that_is_away_is_waited_for(database: Database, times: int) -> None:
    told, job, _ = _failing(database, times, Shortfall("the database is away"))
    told.tell("notice", {})

    told.close()

    assert History(database).events(job=job.id)[-1].kind == "notice"


class _Lossy(Queue):
    """A queue whose database keeps what it is told and goes away before it can say so."""

    times = 1

    def told(self, *arguments: object) -> bool:  # type: ignore[override]
        kept = super().told(*arguments)  # type: ignore[arg-type]
        self.times -= 1
        if self.times >= 0:
            super().tell(str(arguments[0]), "cancelling", {})  # as another process may meanwhile
            raise Shortfall("the database is away")
        return kept


def test_what_was_kept_without_an_answer_is_not_told_twice(database: Database) -> None:
    queue = _Lossy(database)
    job = _running(queue)
    told = Telling(queue, job, lambda: None, lambda: None)
    told.tell("progress", {"done": 1})
    told.tell("progress", {"done": 2})

    told.close()

    found = [event for event in History(database).events(job=job.id) if event.kind == "progress"]
    assert [event.data["done"] for event in found] == [1, 2]


def test_what_fails_again_and_again_is_told(database: Database) -> None:
    told, _, _ = _failing(database, telling._TRIES, Crashed("not understood"))
    told.tell("notice", {})

    with pytest.raises(Crashed, match="not understood"):
        told.close()


def test_a_job_that_nobody_knows_any_more_stops(database: Database) -> None:
    told, _, lost = _failing(database, 1, NotFound("no job"))
    told.tell("notice", {})

    told.close()

    assert lost == [1]
