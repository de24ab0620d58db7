"""Where the past says that main memory may run short, a plan and a job say so, and nothing is refused."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from restrike.server import projection
from restrike.server.jobs import measured
from restrike.server.jobs.model import JobState, Outcome, WorkerFacts
from restrike.server.service import Service
from server.api.test_jobs import SEVEN, submit

GIB = 1 << 30


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projection, "main_memory_bytes", lambda: 10 * GIB)
    monkeypatch.setattr(measured, "_FRESH_S", 0.0)


def ended(client: TestClient, service: Service, rss_bytes: int, **body: Any) -> None:
    """A job like others that took so much."""
    submit(client, generation={**SEVEN, **body})
    job = service.queue.claim(WorkerFacts(id="w", device="cpu:0", memory_bytes=1 << 40))
    assert job is not None
    record = {"seconds": {"picture": 1.0}, "rss_bytes": rss_bytes}
    service.queue.finish(job.id, job.attempt, Outcome(state=JobState.SUCCEEDED, record=record))


def notices(client: TestClient, **body: Any) -> list[str]:
    return client.post("/api/plan", json={"generation": {**SEVEN, **body}}).json()["notices"]


@pytest.mark.usefixtures("small")
def test_a_job_that_may_fill_main_memory_is_warned_of_and_accepted(
    client: TestClient, service: Service
) -> None:
    ended(client, service, 8 * GIB)
    # Control: nine tenths are not reached.
    assert notices(client) == []
    ended(client, service, int(9.5 * GIB))
    (notice,) = notices(client, seed=99)
    assert "took 9.5 GiB of main memory" in notice
    assert "over 90% of the 10.0 GiB" in notice
    job = submit(client, generation={**SEVEN, "seed": 99})["id"]
    told = [event.data["message"] for event in service.history.events(job=job) if event.kind == "notice"]
    assert told == [notice]
    # Other work is not like it.
    assert notices(client, steps=3) == []


@pytest.mark.usefixtures("small")
def test_work_that_never_ran_is_not_guessed_at(client: TestClient) -> None:
    assert notices(client) == []


def test_the_memory_of_this_machine_is_known() -> None:
    found = projection.main_memory_bytes()
    assert found is not None
    assert found > 1 << 28
