"""Lists and events: nothing is missed between two looks, and only ended jobs are forgotten."""

from __future__ import annotations

import threading

from restrike.server.database.connect import Database
from restrike.server.jobs.history import History
from restrike.server.jobs.queue import Queue
from server.jobs.asking import DONE, asked, worker


def test_events_are_numbered_over_all_jobs_and_told_in_order(database: Database) -> None:
    queue, history = Queue(database), History(database)
    one, two = queue.submit(asked("one")), queue.submit(asked("two"))
    queue.tell(one.id, "progress", {"step": 1})
    told = history.events()
    assert [(event.job, event.kind) for event in told] == [
        (one.id, "state"),
        (two.id, "state"),
        (one.id, "progress"),
    ]
    assert history.events(after=told[1].sequence) == told[2:]
    assert history.events(job=two.id) == (told[1],)


def test_a_reader_misses_no_event_of_writers_at_once(database: Database) -> None:
    queue, history = Queue(database), History(database)
    jobs = [queue.submit(asked(str(index))) for index in range(4)]

    def write(name: str) -> None:
        for step in range(25):
            queue.tell(name, "progress", {"step": step})

    seen: list[int] = []
    threads = [threading.Thread(target=write, args=(job.id,)) for job in jobs]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) or not seen or seen[-1] < history.last_sequence():
        seen += [event.sequence for event in history.events(after=seen[-1] if seen else 0, limit=7)]
    assert seen == sorted(set(seen))
    assert len(seen) == 4 + 4 * 25


def test_pages_of_jobs_hold_each_job_once(database: Database) -> None:
    queue, history = Queue(database, clock=lambda: 1000.0), History(database)
    ids = {queue.submit(asked(str(index))).id for index in range(7)}
    pages = [history.jobs(limit=3)]
    while pages[-1]:
        last = pages[-1][-1]
        pages.append(history.jobs(before=(last.created, last.id), limit=3))
    found = [job.id for page in pages for job in page]
    assert sorted(found) == sorted(ids)


def test_where_a_waiting_job_stands(database: Database) -> None:
    queue, history = Queue(database), History(database)
    jobs = [queue.submit(asked(str(index))) for index in range(3)]
    urgent = queue.submit(asked("urgent", priority=1))
    assert [history.ahead_of(job) for job in (*jobs, urgent)] == [1, 2, 3, 0]


def test_only_ended_jobs_are_forgotten_oldest_first(database: Database) -> None:
    times = iter(range(1000, 9000))
    queue, history = Queue(database, clock=lambda: float(next(times))), History(database)
    ended = []
    for index in range(4):
        queue.submit(asked(str(index)))
        job = queue.claim(worker())
        assert job is not None
        queue.finish(job.id, job.attempt, DONE)
        ended.append(job.id)
    waiting = queue.submit(asked("waiting"))
    assert history.forget(keep=2, kept_events=2) == 2
    assert {job.id for job in history.jobs()} == {waiting.id, *ended[2:]}
    assert len(history.events(job=ended[-1])) == 2
    assert len(history.events(job=waiting.id)) == 1
