"""What a submission costs while a job runs, and behind 10,000 that wait: one client, on loopback.

The server, its worker and its SQLite file are real, in a temporary folder; nothing leaves this machine.

    python benchmarks/server.py [--json] [--repeats N] [--queued N]
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from select import select as ready_within
from statistics import quantiles
from tempfile import TemporaryDirectory

from sqlalchemy import insert, select

from form import Bar, Figure, Report, finish, options, seconds_of
from restrike.client.client import Client
from restrike.server.database.connect import Database, sqlite_url
from restrike.server.database.schema import events, jobs
from restrike.server.jobs.model import JobState
from restrike.server.jobs.switches import Switches
from restrike.server.place import DATABASE

P50_BAR_S, P99_BAR_S, SLOWER_BAR = 0.015, 0.100, 2.0
START_S = 180.0
STEPS = 1000
"""Denoising steps of the job that runs meanwhile, the most that its card takes."""
JOB = {"generation": {"card": "digits", "prompt": "a seven", "seed": 7, "steps": 4, "output": "png"}}


@dataclass(frozen=True, kw_only=True)
class Serving:
    """A server that is ready, and where its queue lies."""

    url: str
    data: Path


def main() -> int:
    """Measure, print, and say by the exit status whether the bars are met."""
    parser = options("What a submission costs", repeats=300)
    parser.add_argument("--queued", type=int, default=10_000, help="jobs that wait; default 10000")
    asked = parser.parse_args()
    with TemporaryDirectory() as folder, serving(Path(folder)) as server:
        with running(server):
            busy = submissions(server, asked.repeats)
        with paused(server):
            few = submissions(server, asked.repeats)
            fill(server, asked.queued)
            many = submissions(server, asked.repeats)
    figures = (
        Figure(name="submit while a job runs", unit="s", values=busy),
        Figure(name="submit behind few that wait", unit="s", values=few),
        Figure(name=f"submit behind {asked.queued}", unit="s", values=many),
    )
    bars = (
        Bar(name="p50 while a job runs (s)", value=figures[0].median, bar=P50_BAR_S),
        Bar(name="p99 while a job runs (s)", value=_p99(busy), bar=P99_BAR_S),
        Bar(
            name=f"behind {asked.queued} / behind few",
            value=figures[2].median / figures[1].median,
            bar=SLOWER_BAR,
        ),
    )
    report = Report(title="Submitting a generation over HTTP, SQLite", figures=figures, bars=bars)
    return finish(report, as_json=asked.json)


@contextmanager
def serving(folder: Path) -> Iterator[Serving]:
    """A server of its own process with one worker of the CPU; interrupted at the end."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "restrike", "serve", "--port", "0", "--devices", "cpu:0"),
            *("--data", str(folder / "data")),
        ],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "RESTRIKE_STORE": str(folder / "store")},
    )
    assert process.stdout is not None
    try:
        ready, _, _ = ready_within([process.stdout], [], [], START_S)
        line = process.stdout.readline() if ready else ""
        if not line.startswith("listening on "):
            raise SystemExit("the server did not become ready")
        yield Serving(url=line.removeprefix("listening on ").strip(), data=folder / "data")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


@contextmanager
def running(server: Serving) -> Iterator[None]:
    """A job runs within the block, and is cancelled after it with all that waits."""
    client = Client(server.url)
    job = client.generate("a two", card="digits", steps=STEPS, count=8, seed=1)
    while client.job(job.id).state is JobState.QUEUED:
        pass
    yield
    for other in client.jobs(limit=500):
        if not other.state.is_final:
            client.cancel(other.id)
    client.wait(job.id)


@contextmanager
def paused(server: Serving) -> Iterator[None]:
    """Nothing is started within the block: what was submitted waits."""
    database = Database(sqlite_url(server.data / DATABASE))
    Switches(database).set_paused(True)
    yield
    database.close()


def fill(server: Serving, count: int) -> None:
    """Let so many jobs wait, put into the database itself: copies of one that HTTP accepted."""
    name = Client(server.url).generate("a seven", card="digits", seed=7, steps=4).id
    database = Database(sqlite_url(server.data / DATABASE))
    with database.write() as connection:
        model = connection.execute(select(jobs).where(jobs.c.id == name)).one()._asdict()
        told = connection.execute(select(events).where(events.c.job == name)).one()._asdict()
        del told["sequence"]
        copies = [{"id": f"{name}-{number}", "client_id": None} for number in range(count)]
        connection.execute(insert(jobs), [model | copy for copy in copies])
        connection.execute(insert(events), [told | {"job": copy["id"]} for copy in copies])
    database.close()


def submissions(server: Serving, count: int) -> tuple[float, ...]:
    """The seconds of each of so many submissions, one after another over one connection."""
    address = server.url.removeprefix("http://")
    connection = http.client.HTTPConnection(address, timeout=60)
    body = json.dumps(JOB).encode()

    def submit() -> None:
        connection.request("POST", "/api/jobs", body=body, headers={"Content-Type": "application/json"})
        answer = connection.getresponse()
        accepted = json.loads(answer.read())
        assert answer.status == 202, accepted

    submit()
    found = tuple(seconds_of(submit) for _ in range(count))
    connection.close()
    return found


def _p99(values: tuple[float, ...]) -> float:
    return quantiles(values, n=100, method="inclusive")[98]


if __name__ == "__main__":
    raise SystemExit(main())
