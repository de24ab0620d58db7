"""A data folder with a pool of real workers on it, and what tests ask of its queue."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from restrike.server.database.connect import Database
from restrike.server.devices import slots_of
from restrike.server.jobs.history import History
from restrike.server.jobs.model import Job, JobEvent, JobKind, JobState, Submission
from restrike.server.jobs.queue import Queue
from restrike.server.place import DEFAULT_WORKSPACE, Place
from restrike.server.pool import Pool, PoolOptions
from restrike.server.workers import Workers
from restrike.workflow.runs import Manifest, RunFolder

PERILS = Path(__file__).with_name("perils.py")
WAIT_S = 120.0


@dataclass
class House:
    """One server's folders and workers. `open` starts the pool; another one may follow a dead one."""

    folder: Path
    devices: str = "cpu:0"
    options: PoolOptions = field(default_factory=lambda: PoolOptions(allow_code=(PERILS,), preview_every=2))

    def __post_init__(self) -> None:
        self.place = Place(folder=self.folder)
        self.place.make()
        self.database = Database(self.place.database_url)
        self.database.migrate()
        self.queue, self.history = Queue(self.database), History(self.database)
        self.workers = Workers(self.database)
        self.pool: Pool | None = None
        self.nudged_s: list[float] = []

    def open(self) -> Pool:
        """Start the workers and wait until they take jobs."""
        nudged = self.nudged_s
        self.pool = Pool(self.place, slots_of(self.devices), self.options, lambda: nudged.append(time.time()))
        self.pool.start()
        self.pool.wait_ready(WAIT_S)
        return self.pool

    def close(self) -> None:
        """End the workers."""
        if self.pool is not None:
            self.pool.stop(timeout_s=5.0)
            self.pool = None
        self.database.close()

    def submit(self, definition: Mapping[str, Any], **body: Any) -> Job:
        """Submit a workflow."""
        return self._submitted(JobKind.WORKFLOW, {"definition": dict(definition), **body})

    def generate(self, prompt: str, **body: Any) -> Job:
        """Submit a generation."""
        return self._submitted(JobKind.GENERATION, {"card": "digits", "prompt": prompt, **body})

    def _submitted(self, kind: JobKind, body: dict[str, Any]) -> Job:
        job = self.queue.submit(Submission(kind=kind, body=body, workspace=DEFAULT_WORKSPACE))
        if self.pool is not None:
            self.pool.look()
        return job

    def ended(self, job: Job) -> Job:
        """The job once nothing more will happen to it."""
        return self.until(job, lambda now: now.state.is_final)

    def running(self, job: Job) -> Job:
        """The job once it runs."""
        return self.until(job, lambda now: now.state is not JobState.QUEUED)

    def until(self, job: Job, is_so: Callable[[Job], bool]) -> Job:
        """The job once it is so; a test that waits for too long fails with what the worker printed."""
        end_s = time.monotonic() + WAIT_S
        while time.monotonic() < end_s:
            now = self.queue.job(job.id)
            if is_so(now):
                return now
            time.sleep(0.005)
        raise AssertionError(f"{self.queue.job(job.id)}\n{self.logs()}")

    def events(self, job: Job, kind: str | None = None) -> list[JobEvent]:
        """What was told of a job."""
        return [event for event in self.history.events(job=job.id) if kind in (None, event.kind)]

    def until_event(self, job: Job, kind: str, **data: Any) -> JobEvent:
        """The first event of that kind with that data, as soon as it is there."""
        end_s = time.monotonic() + WAIT_S
        while time.monotonic() < end_s:
            for event in self.events(job, kind):
                if data.items() <= event.data.items():
                    return event
            time.sleep(0.005)
        raise AssertionError(f"no {kind} {data} in {self.events(job)}\n{self.logs()}")

    def until_holds(self, weights: str) -> None:
        """Return when a worker has told that it holds these weights."""
        end_s = time.monotonic() + WAIT_S
        while not any(weights in row.report.resident for row in self.workers.all()):
            assert time.monotonic() < end_s, self.workers.all()
            time.sleep(0.01)

    def manifest(self, job: Job) -> Manifest:
        """The manifest of a job's run."""
        assert job.run is not None
        return RunFolder.open(self.place.workspace(job.workspace), job.run).manifest()

    def logs(self) -> str:
        """What the workers printed."""
        return "\n".join(path.read_text() for path in sorted(self.place.logs.glob("*")))


def digit(steps: int = 4, seed: int = 1, prompt: str = "three") -> dict[str, Any]:
    """A step that makes a digit."""
    return {"generate": "digits", "arguments": {"prompt": prompt, "steps": steps}, "seed": seed}


def peril(name: str, **arguments: Any) -> dict[str, Any]:
    """A step that is a task of `perils`."""
    return {"task": f"peril.{name}", "arguments": arguments}


def flow(*steps: tuple[str, dict[str, Any]], name: str = "flow") -> dict[str, Any]:
    """A workflow of these steps."""
    return {"name": name, "steps": dict(steps)}
