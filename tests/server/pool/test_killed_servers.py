"""Servers and workers killed by SIGKILL, at chosen and at random times: nothing lost, doubled or torn."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from restrike.server.jobs.model import Job, JobState, Outcome
from restrike.server.jobs.queue import KILLS_LIMIT
from restrike.store.owner import Owner
from server.pool.house import WAIT_S, House, digit, flow, peril

Make = Callable[..., House]
TESTS = Path(__file__).parents[2]


@dataclass
class Served:
    """A house whose pool is in a process of its own, which can be killed and begun anew."""

    house: House
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def begin(self) -> None:
        """Start a server."""
        command = [sys.executable, "-m", "server.pool.serving", str(self.house.folder)]
        self.process = subprocess.Popen([*command, self.house.devices], cwd=TESTS)

    def kill(self) -> None:
        """Kill the server, and nothing else."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def pids(self) -> list[int]:
        """The processes of its workers."""
        return [Owner.parse(row.owner).pid for row in self.house.workers.all()]

    def has_workers(self, count: int) -> None:
        """Return when so many workers of the running server take jobs."""
        end_s = time.monotonic() + WAIT_S
        while sum(not Owner.parse(row.owner).is_dead() for row in self.house.workers.all()) < count:
            assert time.monotonic() < end_s, self.house.logs()
            time.sleep(0.02)


@contextmanager
def _served(house: House) -> Iterator[Served]:
    served = Served(house)
    served.begin()
    try:
        yield served
    finally:
        served.kill()
        for pid in served.pids():
            if _state(pid) == "T":  # Only a test that failed leaves it frozen.
                os.kill(pid, signal.SIGKILL)
        _gone(served.pids())


def _gone(pids: list[int]) -> None:
    """Return when these processes are gone; a test that leaves one fails."""
    end_s = time.monotonic() + 20.0
    for pid in pids:
        while _lives(pid):
            assert time.monotonic() < end_s, f"{pid} outlived its server"
            time.sleep(0.01)


def _lives(pid: int) -> bool:
    return _state(pid) not in ("Z", "")


def _state(pid: int) -> str:
    """The state of a process as proc(5) has it; T is stopped, Z is dead, nothing is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def test_workers_end_with_their_server_and_the_next_server_goes_on(make: Make) -> None:
    house = make()
    with _served(house) as served:
        steps = ("base", digit(seed=1)), ("wait", peril("sleep", seconds=2.0, value="$step.base"))
        job = house.submit(flow(*steps))
        house.until_event(job, "step", step="wait", status="began")

        pids = served.pids()
        served.kill()
        _gone(pids)

        assert house.queue.job(job.id).state is JobState.RUNNING
        served.begin()
        job = house.ended(job)
        assert (job.state, job.attempt, job.kills) == (JobState.SUCCEEDED, 2, 0)
        assert [step.status for step in house.manifest(job).steps][1:] == ["computed"]


def test_a_worker_that_outlives_its_server_frozen_ends_no_job_twice(make: Make, tmp_path: Path) -> None:
    house = make()
    with _served(house) as served:
        frozen = peril("freeze", counter=str(tmp_path / "frozen"))
        job = house.submit(flow(("frozen", frozen)))
        house.running(job)
        (pid,) = served.pids()
        while _state(pid) != "T":
            time.sleep(0.01)
        served.kill()
        assert _lives(pid)

        served.begin()
        job = house.ended(job)

        assert not _lives(pid)
        assert (job.state, job.attempt, job.kills) == (JobState.SUCCEEDED, 2, 0)
        # Whatever it would have said comes too late.
        late = Outcome(state=JobState.FAILED)
        assert not house.queue.finish(job.id, 1, late)
        assert not house.queue.told(job.id, 1, [("notice", {"message": "late"})])
        assert house.queue.job(job.id).state is JobState.SUCCEEDED


def _kills(served: Served, *, kills: int, jobs_each: int, seed: int) -> list[Job]:
    """Submit jobs, and kill a server or a worker at random while they run; returns all of them."""
    house, chance = served.house, random.Random(seed)
    jobs: list[Job] = []
    for _ in range(kills):
        served.has_workers(chance.choice((1, 2)))
        for _ in range(jobs_each):
            number = len(jobs)
            steps = ("base", digit(seed=number % 40, steps=30)), ("end", digit(seed=number % 7, prompt="six"))
            jobs.append(house.submit(flow(*steps, name=f"flow{number % 3}"), reuse=bool(number % 2)))
        time.sleep(chance.random() * 0.8)
        if chance.random() < 0.3:
            served.kill()
            served.begin()
        else:
            with suppress(ProcessLookupError, IndexError):
                os.kill(chance.choice(served.pids()), signal.SIGKILL)
    return jobs


def _check(house: House, jobs: list[Job]) -> Counter[str]:
    """Nothing lost, nothing doubled, no torn file; returns how often each state was the last."""
    ended = [house.ended(job) for job in jobs]
    assert len({job.id for job in ended}) == len(jobs) == sum(house.history.counts().values())
    for job in ended:
        finals = [e for e in house.events(job, "state") if JobState(e.data["state"]).is_final]
        assert len(finals) == 1
        # One that was unlucky often enough is taken for one that kills; that is what it is for.
        assert job.state is JobState.SUCCEEDED or (job.state, job.kills) == (
            JobState.QUARANTINED,
            KILLS_LIMIT,
        ), job
    good = [job for job in ended if job.state is JobState.SUCCEEDED]
    assert len({job.run for job in good}) == len(good)
    values: dict[tuple[str, int], set[str | None]] = {}
    for job in good:
        manifest = house.manifest(job)
        assert manifest.status == "finished"
        assert [step.action for step in manifest.steps] == ["base", "end"]
        for step in manifest.steps:
            seed = job.body["definition"]["steps"][step.action]["seed"]
            values.setdefault((step.action, seed), set()).add(step.value)
            for file in step.files:
                path = house.place.workspace("default") / manifest.run / file.file
                assert hashlib.sha256(path.read_bytes()).hexdigest() == file.sha256
    assert all(len(found) == 1 for found in values.values())
    _check_folders(house, {str(job.run) for job in ended}, {str(job.run) for job in good})
    return Counter(str(job.state) for job in ended)


def _check_folders(house: House, runs: set[str], good: set[str]) -> None:
    """Every run that has anything in it is a job's, and in those that ended well nothing is half written."""
    workspace = house.place.workspace("default")
    manifests = workspace.glob("flow*/*/manifest.json")
    assert {"/".join(path.parent.parts[-2:]) for path in manifests} <= runs
    assert not [path for run in good for path in (workspace / run).rglob("*.part")]


def test_random_kills_lose_and_double_nothing(make: Make) -> None:
    house = make(devices="cpu:0,cpu:1")
    with _served(house) as served:
        jobs = _kills(served, kills=4, jobs_each=5, seed=3)
        assert _check(house, jobs)["succeeded"] >= len(jobs) - 1
        assert sum(house.queue.job(job.id).attempt for job in jobs) > len(jobs), "no kill hit a job"


@pytest.mark.slow
def test_fifty_random_kills_over_two_hundred_jobs(make: Make) -> None:
    house = make(devices="cpu:0,cpu:1")
    with _served(house) as served:
        jobs = _kills(served, kills=50, jobs_each=4, seed=8)
        assert len(jobs) == 200
        assert _check(house, jobs)["succeeded"] >= 190
