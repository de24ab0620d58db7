"""Cancelling while a model loads: heard between its components, else ended with its worker."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from restrike.server.jobs.model import Job, JobState
from restrike.server.pool import PoolOptions
from restrike.server.worker.exits import Cause
from server.pool.house import PERILS, WAIT_S, House, flow, peril

SLOWLY = Path(__file__).with_name("slowly.py")


@dataclass
class Loading:
    """A house whose workers load the card `digits` at a pace."""

    house: House
    code: Path

    def pace(self, seconds: float) -> None:
        """How long each component takes from now on."""
        self.code.with_suffix(".pace").write_text(str(seconds))

    def began(self) -> list[str]:
        """The components whose loading began."""
        told = self.code.with_suffix(".loads")
        return told.read_text().split() if told.exists() else []

    def cancelled_while_loading(self) -> Job:
        """A job that is cancelled as soon as the first component loads, when it has ended."""
        job = self.house.generate("one", seed=51)
        while not self.began():
            time.sleep(0.005)
        self.house.queue.cancel(job.id)
        assert self.house.pool is not None
        self.house.pool.look()
        return self.house.ended(job)


@pytest.fixture
def loading(make: Callable[..., House], tmp_path: Path) -> Callable[..., Loading]:
    code = Path(shutil.copy(SLOWLY, tmp_path))

    def new(pace_s: float, devices: str) -> Loading:
        options = PoolOptions(allow_code=(PERILS, code), grace_s=1.0)
        found = Loading(make(devices=devices, options=options), code)
        found.pace(pace_s)
        found.house.open()
        return found

    return new


def test_a_load_is_given_up_at_its_next_component(loading: Callable[..., Loading]) -> None:
    slow = loading(0.7, "cpu:0")
    house = slow.house
    assert house.pool is not None
    before = house.pool.seats()

    job = slow.cancelled_while_loading()

    assert (job.state, job.kills) == (JobState.CANCELLED, 0)
    assert slow.began() == ["text_encoder"]
    assert house.pool.seats() == before
    slow.pace(0.0)
    after = house.ended(house.generate("one", seed=52))
    assert (after.state, after.worker) == (JobState.SUCCEEDED, before[0].worker)
    # The control: left alone, it loads what the cancelled job did not come to, and nothing twice.
    assert slow.began() == ["text_encoder", "transformer", "decoder"]


@pytest.mark.parametrize(
    "pace_s",
    [
        pytest.param(-600, id="holding the interpreter"),
        pytest.param(600, id="asleep", marks=pytest.mark.slow),
    ],
)
def test_a_load_that_hears_nothing_is_ended_with_its_worker(
    loading: Callable[..., Loading], pace_s: float
) -> None:
    deaf = loading(pace_s, "cpu:0,cpu:1")
    house = deaf.house
    assert house.pool is not None
    neighbour = house.running(house.submit(flow(("wait", peril("sleep", seconds=6.0)), name="neighbour")))
    began_s = time.monotonic()

    job = deaf.cancelled_while_loading()

    assert time.monotonic() - began_s < 6.0
    assert (job.state, job.kills, job.attempt) == (JobState.CANCELLED, 0, 1)
    assert job.worker != neighbour.worker
    neighbour = house.ended(neighbour)
    assert (neighbour.state, neighbour.attempt) == (JobState.SUCCEEDED, 1)
    (last,) = [seat.last_exit for seat in house.pool.seats() if seat.last_exit is not None]
    assert last.cause is Cause.CANCELLED
    deaf.pace(0.0)
    house.pool.wait_ready(WAIT_S)
    both = [house.submit(flow(("w", peril("sleep", seconds=0.5)), name=name)) for name in ("left", "right")]
    assert {house.ended(each).device for each in both} == {"cpu:0", "cpu:1"}
    assert house.ended(house.generate("one", seed=53)).state is JobState.SUCCEEDED
