"""Beside a job: heartbeats, a word when it is silent, and its end when someone asks for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from restrike.engine.counts import CardCounters
from restrike.errors import NotFound, RestrikeError
from restrike.server.database.connect import Database
from restrike.server.jobs.history import History
from restrike.server.jobs.model import Job, JobKind, Submission
from restrike.server.jobs.queue import Queue
from restrike.server.place import Place
from restrike.server.worker import attendance
from restrike.server.worker.attempt import Attempt
from restrike.server.worker.attendance import Attendance
from restrike.server.worker.lines import STOP, Orders
from restrike.server.worker.previews import Previews
from restrike.server.worker.telling import Telling
from restrike.server.worker.watching import Watching
from restrike.server.workers import BUSY, IDLE, Report, WorkerRow, Workers

_ROW = WorkerRow(id="w", device="cpu:0", owner="h 1 2 t", server="h 3 4 t", memory_bytes=1 << 30)


class _Scene:
    """A worker with a job that does nothing."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.queue, self.workers, self.history = Queue(database), Workers(database), History(database)
        self.orders = Orders()
        self.report: Report | RestrikeError = Report()
        self.complaints: list[str] = []
        complain = self.complaints.append
        self.attendance = Attendance(_ROW, self.workers, self.queue, self.orders, complain, self.held)
        self.queue.submit(Submission(kind=JobKind.GENERATION, body={"card": "x"}, workspace="default"))
        job = self.queue.claim(_ROW.facts)
        assert job is not None
        self.job: Job = job
        self.telling = Telling(self.queue, job, lambda: None, lambda: None)
        previews = Previews(Place(folder=folder), job.id)
        watching = Watching(telling=self.telling, previews=previews, began=lambda run: None)
        doing: Any = None
        self.attempt = Attempt(job, doing, watching)

    def held(self) -> Report:
        if isinstance(self.report, RestrikeError):
            raise self.report
        return self.report

    def until(self, is_so: Callable[[], bool]) -> None:
        end_s = time.monotonic() + 20.0
        while not is_so():
            assert time.monotonic() < end_s
            time.sleep(0.01)

    def stalls(self) -> list[float]:
        events = self.history.events(job=self.job.id)
        return [event.data["silent_s"] for event in events if event.kind == "stall"]


@pytest.fixture
def scene(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A scene whose silence is soon long."""
    monkeypatch.setattr(attendance, "SILENCE_S", 0.5)
    monkeypatch.setattr(attendance, "BEAT_S", 0.1)
    monkeypatch.setattr(attendance, "CHECK_S", 0.05)
    found = _Scene(database, tmp_path)
    found.attendance.begin()
    yield found
    found.telling.close()
    found.attendance.end()


def test_it_says_what_it_runs(scene: _Scene) -> None:
    scene.until(lambda: scene.workers.all()[0].state == IDLE)
    scene.attendance.attend(scene.attempt)

    scene.until(lambda: scene.workers.all()[0].state == BUSY)
    (row,) = scene.workers.all()
    assert (row.report.job, row.report.attempt) == (scene.job.id, 1)
    assert row.report.rss_bytes > 0
    # What the engine holds and has counted by now, not when the job began.
    assert (row.report.resident, row.report.cards) == ((), ())
    cards = (CardCounters(card="digits"),)
    scene.report = Report(resident=("a",), armed=("a",), resident_bytes=5, cards=cards)
    scene.until(lambda: scene.workers.all()[0].report.cards == cards)
    (row,) = scene.workers.all()
    assert (row.state, row.facts.resident, row.facts.armed) == (BUSY, ("a",), ("a",))
    assert (row.report.resident_bytes, scene.attendance.worker.facts) == (5, row.facts)

    scene.attendance.part()
    scene.until(lambda: scene.workers.all()[0].state == IDLE)


def test_what_cannot_be_told_is_complained_of_once_and_it_beats_on(scene: _Scene) -> None:
    scene.report = NotFound("the checkpoint is gone")
    scene.until(lambda: scene.complaints != [])
    heard = scene.workers.all()[0].heartbeat
    scene.until(lambda: scene.workers.all()[0].heartbeat > heard + 0.5)
    assert scene.complaints == ["the checkpoint is gone"]


def test_silence_is_told_and_ends_with_the_next_word(scene: _Scene) -> None:
    scene.attendance.attend(scene.attempt)
    scene.until(lambda: len(scene.stalls()) == 2)
    assert scene.stalls()[0] >= 0.5
    assert scene.stalls()[1] >= 1.0

    scene.telling.tell("progress", {})

    scene.until(lambda: len(scene.stalls()) == 3)
    assert scene.stalls()[2] < 1.0


def test_a_job_that_speaks_is_not_silent(scene: _Scene) -> None:
    scene.attendance.attend(scene.attempt)
    end_s = time.monotonic() + 1.2
    while time.monotonic() < end_s:
        scene.telling.tell("progress", {})
        time.sleep(0.05)

    assert scene.stalls() == []


@pytest.mark.parametrize("how", ["cancelled", "server stops", "given to another"])
def test_a_job_that_should_end_is_told_so(scene: _Scene, how: str) -> None:
    scene.attendance.attend(scene.attempt)
    assert not scene.attempt.is_stopped

    if how == "cancelled":
        scene.queue.cancel(scene.job.id)
    elif how == "server stops":
        scene.orders.give(STOP)
    else:
        scene.queue.orphaned(scene.job.id, 1, "taken", killed=False)

    scene.until(lambda: scene.attempt.is_stopped)
