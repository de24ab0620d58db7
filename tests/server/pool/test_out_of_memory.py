"""Main memory that runs out for real: killed by the kernel, refused by the system, or killed by others."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from restrike.server.jobs.model import JobState
from restrike.server.worker.exits import Cause
from server.pool.cage import caged
from server.pool.house import House, flow, peril

MUCH_BYTES = 512 << 20


def test_a_worker_that_the_kernel_kills_for_its_memory_is_told_from_one_that_crashed(
    make: Callable[..., House],
) -> None:
    house = make()
    pool = house.open()
    with caged(MUCH_BYTES // 4) as cage:
        cage.put(pool.seats()[0].pid or 0)
        job = house.ended(house.submit(flow(("grow", peril("grow", n_bytes=MUCH_BYTES)))))

    (seat,) = pool.seats()
    assert seat.last_exit is not None
    assert seat.last_exit.cause is Cause.OUT_OF_MEMORY
    # The next worker has no such limit, and goes on with it.
    assert (job.state, job.attempt, job.kills) == (JobState.SUCCEEDED, 2, 1)
    assert "when main memory ran out" in house.events(job, "state")[2].data["reason"]
    # The control: the same signal while there is memory enough is a crash.
    os.kill(seat.pid or 0, signal.SIGKILL)
    assert house.ended(house.generate("one", seed=61)).state is JobState.SUCCEEDED
    assert [seat.last_exit.cause for seat in pool.seats() if seat.last_exit] == [Cause.CRASHED]


def test_an_allocation_that_the_system_refuses_is_a_shortfall_and_its_worker_lives(pair: House) -> None:
    assert pair.pool is not None
    pids = [seat.pid for seat in pair.pool.seats()]

    job = pair.ended(pair.submit(flow(("starve", peril("starve", n_bytes=MUCH_BYTES)))))

    assert (job.state, job.kills) == (JobState.FAILED, 0)
    assert job.failure is not None
    assert (job.failure.kind, job.failure.step) == ("Shortfall", "starve")
    assert pair.ended(pair.generate("one", seed=62)).state is JobState.SUCCEEDED
    assert [seat.pid for seat in pair.pool.seats()] == pids
