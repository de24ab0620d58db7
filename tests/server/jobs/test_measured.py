"""What ended jobs tell of the devices that they ran on, and that the queue routes by it."""

from __future__ import annotations

from typing import Any

import pytest

from restrike.server.database.connect import Database
from restrike.server.jobs.measured import SAMPLES, Measured
from restrike.server.jobs.model import Job, JobState, Outcome
from restrike.server.jobs.queue import Queue
from restrike.server.routing import HANDOVER_S, likeness
from server.jobs.asking import asked, worker


def ran(queue: Queue, name: str, *seconds: float, state: JobState = JobState.SUCCEEDED, **record: Any) -> Job:
    """Let jobs end on a worker, each after so many seconds; the last of them."""
    last: Job | None = None
    for each in seconds:
        queue.submit(asked())
        last = queue.claim(worker(name))
        assert last is not None
        told = {"seconds": {"picture": each / 2, "big": each / 2}, **record}
        queue.finish(last.id, last.attempt, Outcome(state=state, record=told))
    assert last is not None
    return last


def took(database: Database, job: Job) -> dict[str, float]:
    """The seconds of jobs like this one, looked up anew."""
    like = likeness(job.kind, job.label, job.needs, job.body)
    return dict(Measured(database).took().get(like, {}))


def test_the_median_of_each_device_is_told_once_there_are_enough(database: Database) -> None:
    queue = Queue(database)
    job = ran(queue, "slow", 30.0, 8.0, 9.0)
    ran(queue, "fast", 2.0, 2.0)
    assert SAMPLES == 3
    assert took(database, job) == {"cpu:slow": 9.0}
    ran(queue, "fast", 3.0)
    assert took(database, job) == {"cpu:slow": 9.0, "cpu:fast": 2.0}


def test_what_was_reused_failed_or_was_told_at_great_length_tells_nothing(database: Database) -> None:
    queue = Queue(database)
    job = ran(queue, "one", 1.0, 1.0, 1.0, reused=["picture"])
    ran(queue, "one", 1.0, 1.0, 1.0, state=JobState.FAILED)
    ran(queue, "one", 1.0, 1.0, 1.0, notices=["x" * 20_000])
    assert took(database, job) == {}


def test_it_is_looked_up_anew_after_a_while(database: Database) -> None:
    now = [0.0]
    queue, measured = Queue(database), Measured(database, clock=lambda: now[0])
    assert measured.took() == {}
    ran(queue, "one", 1.0, 1.0, 1.0)
    assert measured.took() == {}
    now[0] += 60.0
    assert len(measured.took()) == 1


def test_the_queue_leaves_a_job_to_the_free_device_that_ends_it_sooner(database: Database) -> None:
    now = [1000.0]
    queue = Queue(database, clock=lambda: now[0])
    slow, fast = worker("slow"), worker("fast")
    ran(queue, "slow", 9.0, 9.0, 9.0)
    ran(queue, "fast", 2.0, 2.0, 2.0)

    one = queue.submit(asked())
    now[0] += 0.1
    two = queue.submit(asked())
    # The first is the other's, which is free; the second then finds nobody better.
    taken = queue.claim(slow, (fast,))
    assert taken is not None
    assert (taken.id, taken.device) == (two.id, "cpu:slow")
    taken = queue.claim(fast, (slow,))
    assert taken is not None
    assert (taken.id, taken.device) == (one.id, "cpu:fast")

    # Both run now: whoever is free first takes the next, and says nothing of history.
    queue.finish(two.id, 1, Outcome(state=JobState.SUCCEEDED))
    third = queue.submit(asked())
    taken = queue.claim(slow, (fast,))
    assert taken is not None
    assert (taken.id, taken.why) == (third.id, "first in line when it was free")


@pytest.mark.parametrize("waited_s", [0.0, HANDOVER_S])
def test_a_free_device_that_does_not_look_delays_a_job_for_a_moment(
    database: Database, waited_s: float
) -> None:
    now = [1000.0]
    queue = Queue(database, clock=lambda: now[0])
    ran(queue, "slow", 9.0, 9.0, 9.0)
    ran(queue, "fast", 2.0, 2.0, 2.0)
    queue.submit(asked())
    now[0] += waited_s
    taken = queue.claim(worker("slow"), (worker("fast"),))
    assert (taken is None) == (waited_s == 0.0)
    assert taken is None or "cpu:fast, which ends such jobs sooner, did not look" in taken.why
