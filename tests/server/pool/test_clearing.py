"""Memory is cleared where nothing runs: what a device held is gone, what runs there is named, and goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from restrike.server.app import create_app
from restrike.server.jobs.model import Job, JobState
from restrike.server.service import Service
from server.pool.house import House, digit, flow, peril


@pytest.fixture(scope="module")
def client(pair: House) -> Iterator[TestClient]:
    assert pair.pool is not None
    service = Service(place=pair.place, database=pair.database, waking=pair.pool.look)
    with TestClient(create_app(service), base_url="http://localhost") as found:
        yield found


def clear(client: TestClient, device: str | None = None, status: int = 200) -> Any:
    answer = client.post("/api/memory/clear", json={"device": device})
    assert answer.status_code == status, answer.text
    return answer.json()


def held(pair: House) -> set[str]:
    """The devices on which anything is loaded, as all others see it."""
    return {row.device for row in pair.workers.all() if row.report.resident}


def made(pair: House, seed: int) -> tuple[Job, str]:
    """A digit that is computed and never reused, and the digest of its pixels."""
    job = pair.ended(pair.submit(flow(("picture", digit(seed=seed))), reuse=False))
    return job, str(pair.manifest(job).steps[0].value)


def test_an_idle_device_lets_go_and_the_next_run_is_cold_with_the_same_bytes(
    pair: House, client: TestClient
) -> None:
    first, pixels = made(pair, 41)
    pair.until_holds(first.record["generations"]["picture"]["weights"])
    assert first.device in held(pair)
    (answer,) = clear(client, first.device)["devices"]
    assert (answer["device"], answer["refusal"]) == (first.device, None)
    assert answer["freed_bytes"] > 1_000_000
    assert first.device not in held(pair)
    # Control: there is nothing left to free.
    assert clear(client, first.device)["devices"][0]["freed_bytes"] == 0
    again, same = made(pair, 41)
    assert same == pixels
    pair.until_holds(again.record["generations"]["picture"]["weights"])


def test_what_a_running_job_has_loaded_is_told_while_it_runs(pair: House, client: TestClient) -> None:
    clear(client)
    assert held(pair) == set()
    job = pair.running(pair.generate("five", seed=43, steps=1000, items=list(range(32))))
    pair.until(job, lambda now: bool(held(pair)))
    (busy,) = (row for row in pair.workers.all() if row.report.resident)
    assert (busy.state, busy.report.job, busy.facts.resident) == ("busy", job.id, busy.report.resident)
    assert busy.report.resident_bytes > 1_000_000
    pair.queue.cancel(job.id)
    pair.ended(job)


def test_a_device_that_runs_a_job_is_left_alone_and_the_job_is_named(pair: House, client: TestClient) -> None:
    sleeping = pair.running(pair.submit(flow(("wait", peril("sleep", seconds=2.0)))))
    assert sleeping.id in clear(client, sleeping.device, status=409)["detail"]
    answers = {each["device"]: each for each in clear(client)["devices"]}
    assert set(answers) == {"cpu:0", "cpu:1"}
    assert sleeping.id in answers.pop(str(sleeping.device))["refusal"]
    assert [each["refusal"] for each in answers.values()] == [None]
    assert pair.ended(sleeping).state is JobState.SUCCEEDED
    # Control: now that it has ended, the same device is cleared.
    clear(client, sleeping.device)


def test_clearing_while_jobs_come_loses_none(pair: House, client: TestClient) -> None:
    jobs: list[Job] = []
    for seed in range(8):
        jobs.append(pair.submit(flow(("picture", digit(seed=500 + seed))), reuse=False))
        clear(client)
    assert {pair.ended(job).state for job in jobs} == {JobState.SUCCEEDED}
    assert {job.attempt for job in map(pair.ended, jobs)} == {1}


def test_a_device_that_is_none_is_unknown(client: TestClient) -> None:
    assert "cpu:0, cpu:1" in clear(client, "cuda:7", status=404)["detail"]
