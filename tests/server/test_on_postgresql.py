"""A whole server on a PostgreSQL that is killed under load, as its workers are: nothing lost or doubled."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from restrike.client.asked import Generation, Terms
from restrike.client.client import Client
from restrike.client.results import Job
from restrike.errors import Shortfall
from restrike.server.database.connect import Database
from restrike.server.jobs.history import History
from restrike.server.jobs.model import JobEvent, JobState
from restrike.server.workers import Workers
from restrike.store.owner import Owner
from server.postgresql import PostgreSQL, postgresql_server
from serving import Server, served, until

WAIT_S = 300.0


@dataclass
class Listener:
    """One reader of all events, over however many connections that takes."""

    client: Client
    heard: list[JobEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._following = self.client.following()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for event in self._following:
            self.heard.append(event)

    def close(self) -> None:
        """Hear no more."""
        self._following.close()
        self._thread.join()


@dataclass
class Whole:
    """A server with two workers on a PostgreSQL of its own, and its database, looked at from outside."""

    postgresql: PostgreSQL
    server: Server
    database: Database
    client: Client

    def submit(self, number: int) -> Job:
        """Submit a generation as a client does that retries until it has an answer."""
        return self._patiently(lambda: self._submit(number))

    def _submit(self, number: int) -> Job:
        options = {"seed": number // 2, "steps": 60}
        work = Generation(prompt="a seven", card="digits", output="png", options=options)
        return self.client.submit(work, Terms(client_id=f"mine-{number}"))

    def ended(self, job: Job) -> Job:
        """The job once nothing more will happen to it."""
        end_s = time.monotonic() + WAIT_S
        while not (found := self._patiently(lambda: self.client.job(job.id))).state.is_final:
            assert time.monotonic() < end_s, f"{found}\n{Workers(self.database).all()}\n{self._logs()}"
            time.sleep(0.05)
        return found

    def _logs(self) -> str:
        return "\n".join(path.read_text() for path in sorted((self.server.data / "logs").iterdir()))

    def _patiently(self, ask: Callable[[], Job]) -> Job:
        end_s = time.monotonic() + WAIT_S
        while True:
            try:
                return ask()
            except Shortfall:
                assert time.monotonic() < end_s
                time.sleep(0.1)

    def kill_worker(self, chance: random.Random) -> None:
        """Kill a worker by SIGKILL."""
        pids = [Owner.parse(row.owner).pid for row in Workers(self.database).all()]
        with suppress(ProcessLookupError, IndexError):
            os.kill(chance.choice(pids), signal.SIGKILL)

    def restart_database(self, away_s: float) -> None:
        """Kill the database, and begin it anew after a while."""
        self.postgresql.kill()
        time.sleep(away_s)
        self.postgresql.begin()


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Whole]:
    with postgresql_server() as postgresql:
        url = postgresql.fresh("whole")
        database = Database(url)
        with served(tmp_path / "data", "--database", url, "--devices", "cpu:0,cpu:1") as server:
            yield Whole(postgresql, server, database, Client(server.url))
        database.close()


def _check(whole: Whole, jobs: list[Job], listener: Listener) -> Counter[str]:
    """Nothing lost, nothing doubled, no file torn; returns how the jobs ended."""
    ended = [whole.ended(job) for job in jobs]
    history = History(whole.database)
    assert len({job.id for job in ended}) == len(jobs)
    # The one that is not ours proved at the start that the server is ready.
    assert sum(history.counts().values()) == len(jobs) + 1
    kept = list(_events(history))
    until(lambda: listener.heard and listener.heard[-1].sequence == kept[-1].sequence)
    heard = [event.sequence for event in listener.heard]
    assert heard == [event.sequence for event in kept if event.sequence >= heard[0]]
    finals = Counter(event.job for event in kept if event.kind == "state" and _is_final(event))
    assert {finals[job.id] for job in ended} == {1}
    steps = Counter((e.job, e.data["item"], e.data["done"]) for e in kept if e.kind == "progress")
    for job in ended:
        attempts = job.attempt
        assert all(count <= attempts for (name, _, _), count in steps.items() if name == job.id), job
    _check_files(whole, [job for job in ended if job.state is JobState.SUCCEEDED])
    return Counter(str(job.state) for job in ended)


def _is_final(event: JobEvent) -> bool:
    return JobState(event.data["state"]).is_final


def _events(history: History) -> Iterator[JobEvent]:
    after = 0
    while found := history.events(after=after):
        yield from found
        after = found[-1].sequence


def _check_files(whole: Whole, jobs: list[Job]) -> None:
    """Each run is one job's, its files are whole, and equal requests made equal files."""
    assert len({job.run for job in jobs}) == len(jobs)
    made: dict[int, set[str]] = {}
    for job in jobs:
        (file,) = job.files
        path = whole.server.data / "workspaces" / "default" / str(job.run) / file.file
        assert hashlib.sha256(path.read_bytes()).hexdigest() == file.sha256
        made.setdefault(job.record["seed"], set()).add(file.sha256)
    assert all(len(digests) == 1 for digests in made.values())


def test_a_database_and_a_worker_that_die_under_load_lose_and_double_nothing(whole: Whole) -> None:
    listener = Listener(whole.client)
    jobs = [whole.submit(number) for number in range(8)]
    until(lambda: any(event.kind == "progress" for event in listener.heard))

    crash = threading.Thread(target=whole.restart_database, args=(0.5,))
    crash.start()
    jobs += [whole.submit(number) for number in range(8, 16)]  # some of them while it is away
    crash.join()
    whole.kill_worker(random.Random(1))
    assert [whole.submit(number).id for number in range(16)] == [job.id for job in jobs]

    assert _check(whole, jobs, listener) == {"succeeded": 16}
    listener.close()


@pytest.mark.slow
def test_many_deaths_of_database_and_workers_lose_and_double_nothing(whole: Whole) -> None:
    listener, chance = Listener(whole.client), random.Random(5)
    jobs: list[Job] = []
    for first in range(0, 96, 8):
        jobs += [whole.submit(number) for number in range(first, first + 8)]
        time.sleep(chance.random() * 1.5)
        if chance.random() < 0.5:
            whole.kill_worker(chance)
        else:
            whole.restart_database(chance.random() * 3)
    # One that was unlucky often enough is taken for one that kills; that is what it is for.
    found = _check(whole, jobs, listener)
    assert found["succeeded"] >= 90
    assert set(found) <= {"succeeded", "quarantined"}
    listener.close()
