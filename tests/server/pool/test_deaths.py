"""Workers that die, hang, grow or are stopped: what becomes of their job, and of everyone else's."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from restrike.errors import Crashed
from restrike.server.jobs.model import JobState
from restrike.server.jobs.queue import KILLS_LIMIT
from restrike.server.pool import PoolOptions
from restrike.server.worker.exits import Cause
from server.pool.house import PERILS, House, digit, flow, peril

Make = Callable[..., House]


def _deadly(times: int, counter: Path, seed: int) -> dict[str, object]:
    """Makes a digit, then kills its worker so many times."""
    deadly = peril("die", times=times, counter=str(counter), value="$step.base")
    return flow(("base", digit(seed=seed)), ("deadly", deadly))


def _statuses(house: House, job: object, step: str) -> list[str]:
    return [event.data["status"] for event in house.events(job, "step") if event.data["step"] == step]  # type: ignore[arg-type]


def test_a_job_whose_worker_is_killed_goes_on_at_its_unfinished_step(pair: House, tmp_path: Path) -> None:
    job = pair.ended(pair.submit(_deadly(1, tmp_path / "count", seed=501)))

    assert job.state is JobState.SUCCEEDED
    assert (job.attempt, job.kills) == (2, 1)
    told = [event.data for event in pair.events(job, "state")]
    assert [data["state"] for data in told] == ["queued", "running", "queued", "running", "succeeded"]
    assert "SIGKILL" in told[2]["reason"]
    # Computed once, in the run that both attempts share. The kill may come before its event is written.
    statuses = _statuses(pair, job, "base")
    assert statuses[-1] == "reused"
    assert statuses.count("computed") <= 1
    assert len(list((pair.place.workspace("default") / "flow").iterdir())) == 1
    assert pair.ended(pair.generate("one", seed=502, steps=2)).state is JobState.SUCCEEDED


def test_a_job_without_reuse_keeps_what_it_made_itself_and_nothing_of_others(
    pair: House, tmp_path: Path
) -> None:
    end = {"task": "peril.keep", "arguments": {"value": "$step.deadly"}}
    harmless = peril("die", times=0, counter=str(tmp_path / "none"))
    pair.ended(pair.submit(flow(("deadly", harmless), ("end", end), name="before")))
    deadly = peril("die", times=1, counter=str(tmp_path / "count"), value="$step.base")
    steps = ("base", digit(seed=522)), ("deadly", deadly), ("end", end)

    job = pair.ended(pair.submit(flow(*steps), reuse=False))

    assert (job.state, job.attempt) == (JobState.SUCCEEDED, 2)
    assert job.record["reused"] == ["base"]
    assert job.record["computed"] == ["deadly", "end"]


def test_a_neighbour_of_a_dead_worker_is_untouched(pair: House, tmp_path: Path) -> None:
    neighbour = pair.running(pair.submit(flow(("wait", peril("sleep", seconds=2.0)), name="neighbour")))

    pair.ended(pair.submit(_deadly(1, tmp_path / "count", seed=503)))

    neighbour = pair.ended(neighbour)
    assert neighbour.state is JobState.SUCCEEDED
    assert neighbour.attempt == 1


def test_a_job_that_kills_its_workers_is_set_aside(pair: House, tmp_path: Path) -> None:
    count = tmp_path / "count"

    job = pair.ended(pair.submit(_deadly(99, count, seed=504)))

    assert job.state is JobState.QUARANTINED
    assert job.kills == KILLS_LIMIT == count.stat().st_size
    assert job.failure is not None
    assert "SIGKILL" in job.failure.reason
    assert job.failure.remedy
    assert pair.ended(pair.generate("one", seed=505, steps=2)).state is JobState.SUCCEEDED


def test_one_death_fewer_is_not_set_aside(pair: House, tmp_path: Path) -> None:
    job = pair.ended(pair.submit(_deadly(KILLS_LIMIT - 1, tmp_path / "count", seed=506)))

    assert job.state is JobState.SUCCEEDED
    assert job.kills == KILLS_LIMIT - 1


def test_a_worker_that_hangs_is_replaced(make: Make, tmp_path: Path) -> None:
    house = make(options=PoolOptions(allow_code=(PERILS,), hang_s=2.0))
    pool = house.open()
    frozen = peril("freeze", counter=str(tmp_path / "frozen"))

    job = house.ended(house.submit(flow(("frozen", frozen))))

    assert job.state is JobState.SUCCEEDED
    assert job.kills == 1
    assert "was not heard and computed nothing" in str(house.events(job, "state")[2].data["reason"])
    (seat,) = pool.seats()
    assert seat.last_exit is not None
    assert seat.last_exit.cause is Cause.HUNG
    # A step that only takes long is no hang.
    long = house.ended(house.submit(flow(("long", peril("sleep", seconds=4.0)), name="long")))
    assert (long.state, long.kills) == (JobState.SUCCEEDED, 0)


def test_a_worker_that_grew_is_replaced_after_its_job(make: Make) -> None:
    house = make(options=PoolOptions(allow_code=(PERILS,), growth_bytes=64 << 20))
    pool = house.open()
    for seed in range(4):
        house.ended(house.generate("one", seed=600 + seed, steps=2))
    house.ended(house.submit(flow(("little", peril("grow", n_bytes=16 << 20)), name="little")))
    assert pool.seats()[0].starts == 1

    job = house.ended(house.submit(flow(("much", peril("grow", n_bytes=128 << 20)), name="much")))
    after = house.ended(house.generate("one", seed=610, steps=2))

    assert (job.state, job.kills) == (JobState.SUCCEEDED, 0)
    assert after.state is JobState.SUCCEEDED
    assert after.worker != job.worker
    (seat,) = pool.seats()
    assert seat.last_exit is not None
    assert seat.last_exit.cause is Cause.RECYCLED


def test_a_stopped_server_gives_its_jobs_back_and_the_next_goes_on(make: Make) -> None:
    house = make()
    pool = house.open()
    steps = ("base", digit(seed=701)), ("wait", peril("sleep", seconds=1.5, value="$step.base"))
    job = house.submit(flow(*steps, ("end", digit(seed=702, prompt="four"))))
    house.until_event(job, "step", step="wait", status="began")

    pool.stop(timeout_s=10.0)

    job = house.queue.job(job.id)
    assert (job.state, job.kills, job.attempt) == (JobState.QUEUED, 0, 1)
    assert house.workers.all() == ()
    house.open()
    job = house.ended(job)
    assert (job.state, job.attempt) == (JobState.SUCCEEDED, 2)
    assert _statuses(house, job, "base") == ["began", "computed", "began", "reused"]


def test_draining_lets_the_running_job_end_and_no_other_begin(make: Make) -> None:
    house = make()
    pool = house.open()
    first = house.running(house.submit(flow(("wait", peril("sleep", seconds=1.0)))))
    second = house.generate("one", seed=801)

    pool.stop(drain=True)

    assert house.queue.job(first.id).state is JobState.SUCCEEDED
    assert house.queue.job(second.id).state is JobState.QUEUED


def test_a_worker_that_cannot_start_is_told(make: Make, tmp_path: Path) -> None:
    house = make(options=PoolOptions(allow_code=(tmp_path / "none.py",)))

    with pytest.raises(Crashed, match="cpu:0 did not start: it ended with status 1"):
        house.open()

    assert "none.py" in house.logs()


def test_a_worker_killed_between_jobs_costs_no_job(pair: House) -> None:
    assert pair.pool is not None
    before = pair.pool.seats()
    for seat in before:
        os.kill(seat.pid or 0, signal.SIGTERM)

    job = pair.ended(pair.generate("nine", seed=900, steps=2))

    assert (job.state, job.kills) == (JobState.SUCCEEDED, 0)
    assert {seat.pid for seat in pair.pool.seats()}.isdisjoint({seat.pid for seat in before})
    assert all(seat.last_exit and "SIGTERM" in seat.last_exit.reason for seat in pair.pool.seats())
