"""Cancelling at every edge of a job's life: the right job, soon, and nobody else."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from restrike.server.jobs.model import Job, JobState
from restrike.server.pool import PoolOptions
from restrike.server.worker.exits import Cause
from server.pool.house import PERILS, House, digit, flow, peril

LONG = 1000
"""Denoising steps of a job that is cancelled long before it could end."""


def _cancel(house: House, job: Job) -> Job:
    job = house.queue.cancel(job.id)
    assert house.pool is not None
    house.pool.look()
    return job


def test_a_running_job_stops_at_its_next_step_and_its_worker_lives(pair: House) -> None:
    assert pair.pool is not None
    pids = [seat.pid for seat in pair.pool.seats()]
    steps = ("base", digit(seed=41)), ("long", digit(steps=LONG, seed=42, prompt="five"))
    job = pair.submit(flow(*steps))
    pair.until_event(job, "progress", step="long", total=LONG)

    began = time.monotonic()
    _cancel(pair, job)
    job = pair.ended(job)
    seconds = time.monotonic() - began

    assert job.state is JobState.CANCELLED
    assert seconds < 2.0
    assert [seat.pid for seat in pair.pool.seats()] == pids
    manifest = pair.manifest(job)
    assert manifest.status == "cancelled"
    assert next((step.action, step.status) for step in manifest.steps) == ("base", "computed")
    asked, ended = pair.events(job, "cancelling")[0], pair.events(job)[-1]
    between = [e for e in pair.events(job, "progress") if asked.sequence < e.sequence < ended.sequence]
    assert len(between) < LONG / 10


def test_a_job_that_waits_is_never_started(pair: House) -> None:
    busy = [pair.running(pair.submit(flow(("w", peril("sleep", seconds=1.0)), name=n))) for n in ("a", "b")]
    job = pair.generate("one", seed=43)

    assert _cancel(pair, job).state is JobState.CANCELLED

    for other in busy:
        assert pair.ended(other).state is JobState.SUCCEEDED
    pair.ended(pair.generate("two", seed=44))
    assert pair.queue.job(job.id).attempt == 0
    assert [event.kind for event in pair.events(job)] == ["state", "state"]


def test_a_job_that_has_ended_stays_as_it_is(pair: House) -> None:
    job = pair.ended(pair.generate("one", seed=45))

    assert _cancel(pair, job).state is JobState.SUCCEEDED


def test_a_job_that_is_deaf_is_ended_with_its_worker_and_counts_as_no_death(
    make: Callable[..., House],
) -> None:
    house = make(devices="cpu:0,cpu:1", options=PoolOptions(allow_code=(PERILS,), grace_s=1.0))
    pool = house.open()
    neighbour = house.running(house.submit(flow(("wait", peril("sleep", seconds=4.0)), name="neighbour")))
    job = house.submit(flow(("deaf", peril("sleep", seconds=600.0)), name="deaf"))
    house.until_event(job, "step", step="deaf", status="began")

    began = time.monotonic()
    _cancel(house, job)
    job = house.ended(job)

    assert job.state is JobState.CANCELLED
    assert time.monotonic() - began < 10.0
    assert (job.kills, job.attempt) == (0, 1)
    neighbour = house.ended(neighbour)
    assert (neighbour.state, neighbour.attempt) == (JobState.SUCCEEDED, 1)
    (last,) = [seat.last_exit for seat in pool.seats() if seat.last_exit is not None]
    assert last.cause is Cause.CANCELLED
    assert house.ended(house.generate("six", seed=46)).state is JobState.SUCCEEDED


def test_a_worker_of_many_short_jobs_is_not_taken_for_one_that_does_not_stop(
    make: Callable[..., House],
) -> None:
    # What it reports once a second has ended by the time that anyone looks, again and again.
    house = make(options=PoolOptions(allow_code=(PERILS,), grace_s=0.6))
    pool = house.open()
    pids = [seat.pid for seat in pool.seats()]
    asked = [house.generate("three", seed=30_000 + number, steps=30) for number in range(40)]
    jobs = [house.ended(job) for job in asked]
    assert {job.state for job in jobs} == {JobState.SUCCEEDED}
    assert [job.attempt for job in jobs] == [1] * len(jobs)
    assert [seat.pid for seat in pool.seats()] == pids


EDGES = ("submitted", "running", "began", "denoising", "soon", "late")


def _at(house: House, edge: str, job: Job, chance: random.Random) -> None:
    """Return when the job is at an edge of its life, or past it."""
    if edge == "running":
        house.running(job)
    elif edge == "began":
        house.until(job, lambda now: bool(house.events(job, "step")) or now.state.is_final)
    elif edge == "denoising":
        house.until(job, lambda now: bool(house.events(job, "progress")) or now.state.is_final)
    elif edge == "soon":
        time.sleep(chance.random() * 0.05)
    elif edge == "late":
        time.sleep(chance.random() * 0.4)


def _rounds(house: House, count: int) -> dict[str, int]:
    """So many rounds of two jobs, of which one is cancelled; returns how those ended."""
    assert house.pool is not None
    pids = [seat.pid for seat in house.pool.seats()]
    chance, ends = random.Random(6), dict.fromkeys(("cancelled", "succeeded"), 0)
    for number in range(count):
        neighbour = house.generate("three", seed=10_000 + number, steps=12)
        job = house.generate("four", seed=20_000 + number, steps=60)
        _at(house, EDGES[number % len(EDGES)], job, chance)
        _cancel(house, job)
        job, neighbour = house.ended(job), house.ended(neighbour)
        assert neighbour.state is JobState.SUCCEEDED, neighbour
        assert neighbour.attempt == 1
        assert job.state in (JobState.CANCELLED, JobState.SUCCEEDED), job
        finals = [e for e in house.events(job, "state") if JobState(e.data["state"]).is_final]
        assert len(finals) == 1
        if job.run is not None:
            finished = job.state is JobState.SUCCEEDED
            assert house.manifest(job).status == ("finished" if finished else "cancelled")
        ends[str(job.state)] += 1
    # Both slots are back, in the processes that they were in.
    both = [house.submit(flow(("w", peril("sleep", seconds=0.5)), name=n)) for n in ("left", "right")]
    assert {house.ended(job).device for job in both} == {"cpu:0", "cpu:1"}
    assert [seat.pid for seat in house.pool.seats()] == pids
    return ends


def test_cancelling_at_each_edge(pair: House) -> None:
    assert _rounds(pair, 20)["cancelled"] > 5


@pytest.mark.slow
def test_cancelling_at_each_edge_in_many_rounds(pair: House) -> None:
    assert _rounds(pair, 200)["cancelled"] > 50
