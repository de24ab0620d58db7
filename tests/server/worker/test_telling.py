"""Events are kept in order, before the end of their job, and only while the job is its worker's."""

from __future__ import annotations

import time

import pytest

from restrike.errors import Shortfall
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


class _Full(Queue):
    """A queue whose disk is full so many times."""

    times = 0

    def told(self, *arguments: object) -> bool:  # type: ignore[override]
        if self.times:
            self.times -= 1
            raise Shortfall("disk full")
        return super().told(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(("times", "fails"), [(1, False), (telling._TRIES, True)])
def test_a_full_disk_is_tried_again_and_then_told(
    database: Database, monkeypatch: pytest.MonkeyPatch, times: int, fails: bool
) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    queue = _Full(database)
    job = _running(queue)
    queue.times = times
    told = Telling(queue, job, lambda: None, lambda: None)
    told.tell("notice", {})

    if fails:
        with pytest.raises(Shortfall, match="disk full"):
            told.close()
    else:
        told.close()
        assert History(database).events(job=job.id)[-1].kind == "notice"
