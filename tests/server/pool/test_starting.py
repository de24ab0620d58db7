"""A pool that cannot start a worker tries again, later and later, and takes no other seat with it."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable

from restrike.server.jobs.model import JobState
from restrike.server.pool import backoff_s
from server.pool.house import House


def test_pauses_grow_to_their_limit_and_no_further() -> None:
    assert [backoff_s(deaths, 30.0) for deaths in range(7)] == [0.0, 0.0, 1.0, 2.0, 4.0, 8.0, 16.0]
    assert backoff_s(10_000, 30.0) == 30.0


def test_a_worker_that_cannot_be_started_is_started_once_it_can(make: Callable[..., House]) -> None:
    house = make()
    pool = house.open()
    (seat,) = pool.seats()
    assert seat.pid is not None
    shutil.rmtree(house.place.logs)  # Its log has no place now, as on a disk that is full.
    os.kill(seat.pid, signal.SIGKILL)
    while pool.seats()[0].pid is not None:
        time.sleep(0.01)
    job = house.generate("four", seed=601, steps=1)

    house.place.logs.mkdir()

    assert house.ended(job).state is JobState.SUCCEEDED
