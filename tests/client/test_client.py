"""The client against a real server: jobs, plans, events, files, and failures as they were raised there."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import restrike
from restrike.client import Generation, PlanChanged, Terms, Workflow
from restrike.client.client import Client
from restrike.client.results import job_of
from restrike.errors import Conflict, Crashed, NotFound, Refused
from restrike.server.jobs.model import JobState
from restrike.workflow.findings import InvalidWorkflow
from restrike.workflow.plan import Status
from restrike.workflow.source import read_tree
from serving import Server, until


@pytest.fixture
def client(server: Server) -> Client:
    return Client(server.url)


def digit(seed: int, *, prompt: str = "three", steps: int = 4) -> dict[str, Any]:
    """A workflow of one step that makes a digit."""
    step = {"generate": "digits", "arguments": {"prompt": prompt, "steps": steps}, "seed": seed}
    return {"name": "digit", "steps": {"made": step}}


def test_a_workflow_gives_the_bytes_that_it_gives_here(client: Client, tmp_path: Path) -> None:
    session = restrike.open_session(tmp_path / "here", device="cpu", store=tmp_path / "store")
    here = session.run(read_tree(digit(11)), restrike.Asked())
    there = client.wait(client.submit(Workflow(definition=digit(11))).id)
    assert there.state is JobState.SUCCEEDED
    assert there.error is None
    assert [file.sha256 for file in there.files] == [file.sha256 for file in here.steps[0].files]
    (path,) = client.save(there.id, tmp_path / "home")
    assert hashlib.sha256(path.read_bytes()).hexdigest() == there.files[0].sha256
    assert [file.name for file in (tmp_path / "home").iterdir()] == [path.name]


def test_a_generation_is_a_job_like_any_other(client: Client) -> None:
    job = client.wait(client.generate("seven", card="digits", output="png", seed=7, steps=4).id)
    assert job.state is JobState.SUCCEEDED
    assert job.device == "cpu:0"
    assert job.why
    assert job.files[0].file.endswith(".png")
    assert job.id in [other.id for other in client.jobs(state=JobState.SUCCEEDED)]


def test_the_same_client_id_is_the_same_job(client: Client) -> None:
    terms = Terms(client_id="once")
    first, again = (client.submit(Workflow(definition=digit(1)), terms) for _ in range(2))
    assert first.id == again.id
    with pytest.raises(Conflict, match="was used for another job"):
        client.submit(Workflow(definition=digit(2)), terms)
    client.wait(first.id)


def test_a_plan_says_what_runs_and_a_stale_one_is_not_accepted(client: Client) -> None:
    work = Workflow(definition=digit(21))
    plan = client.plan(work)
    assert [row.status for row in plan.rows] == [Status.RUNS]
    client.wait(client.submit(work, Terms(accept_plan=plan.fingerprint)).id)
    assert [row.status for row in client.plan(work).rows] == [Status.REUSED]
    other = Workflow(definition=digit(21, prompt="four"))
    with pytest.raises(PlanChanged) as raised:
        client.submit(other, Terms(accept_plan=plan.fingerprint))
    assert raised.value.plan == client.plan(other)
    client.wait(client.submit(other, Terms(accept_plan=raised.value.plan.fingerprint)).id)


def test_a_plan_that_costs_too_much_is_refused(client: Client) -> None:
    client.wait(client.submit(Workflow(definition=digit(31))).id)
    with pytest.raises(Refused, match="over max_seconds"):
        client.submit(Workflow(definition=digit(32)), Terms(max_seconds=0.0))


def test_failures_come_back_as_what_they_were(client: Client) -> None:
    with pytest.raises(NotFound, match="no job 'nothing'"):
        client.job("nothing")
    with pytest.raises(NotFound):
        client.job("../switches")
    wrong = digit(1) | {"steps": {"made": {"generate": "digit"}}}
    with pytest.raises(InvalidWorkflow) as raised:
        client.submit(Workflow(definition=wrong))
    assert raised.value.findings[0].path == "steps.made.generate"
    with pytest.raises(Refused):
        client.submit(Generation(prompt="seven", card="digits", options={"stepz": 3}))


def test_a_failed_job_says_why_as_the_error_that_it_was() -> None:
    told = {
        "id": "job-1",
        "kind": "workflow",
        "workspace": "default",
        "state": "failed",
        "priority": 0,
        "created": 1.0,
        "a field of a later server": 1,
        "failure": {"kind": "Shortfall", "class": "shortfall", "reason": "no memory", "step": "made"},
    }
    error = job_of(told).error
    assert isinstance(error, restrike.Shortfall)
    assert error.message == "step 'made': no memory"
    assert isinstance(job_of({**told, "failure": None, "state": "cancelled"}).error, restrike.Cancelled)
    assert job_of({**told, "failure": None, "state": "succeeded"}).error is None


@pytest.mark.parametrize("name", ["../out.png", "/out.png", "a/../../out.png", "..\\out.png", ""])
def test_a_server_cannot_write_outside_of_the_folder(client: Client, tmp_path: Path, name: str) -> None:
    job = client.wait(client.submit(Workflow(definition=digit(41))).id)
    with pytest.raises(Refused, match="leads out of the folder"):
        client.download(replace(job.files[0], file=name), tmp_path / "in")
    assert list(tmp_path.rglob("*.png")) == []


def test_a_file_with_other_bytes_is_not_kept(client: Client, tmp_path: Path) -> None:
    job = client.wait(client.submit(Workflow(definition=digit(41))).id)
    with pytest.raises(Crashed, match="other bytes than the server told of"):
        client.download(replace(job.files[0], sha256="0" * 64), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_events_come_in_order_to_the_end(client: Client) -> None:
    job = client.generate("two", card="digits", steps=5, seed=5, output="png")
    events = list(client.events(job.id))
    numbers = [event.sequence for event in events]
    assert numbers == sorted(set(numbers))
    assert [event.data["done"] for event in events if event.kind == "progress"] == [0, 1, 2, 3, 4, 5]
    assert [event.data["state"] for event in events if event.kind == "state"] == [
        "queued",
        "running",
        "succeeded",
    ]
    assert list(client.events(job.id, after=numbers[3])) == events[4:]
    assert client.happened(job.id) == tuple(events)
    assert list(client.events(job.id, after=numbers[-1])) == []


def test_events_of_all_jobs_come_after_a_number_until_it_is_closed(client: Client) -> None:
    first, second = (client.generate("one", card="digits", steps=2, seed=seed) for seed in (2, 3))
    last = client.happened(first.id)[0].sequence
    following = client.following(after=last)
    found = []
    for event in following:
        found.append(event)
        if event.job == second.id and event.data.get("state") == "succeeded":
            following.close()
    assert {event.job for event in found} >= {first.id, second.id}
    assert min(event.sequence for event in found) > last


def test_a_job_is_cancelled_by_its_id_and_no_other(client: Client) -> None:
    running = client.generate("nine", card="digits", steps=1000, seed=1)
    waiting = client.generate("nine", card="digits", steps=2, seed=2)
    until(lambda: client.job(running.id).state is JobState.RUNNING)
    assert client.job(waiting.id).position == 0
    assert client.cancel(running.id).cancel_requested
    assert client.wait(running.id).state is JobState.CANCELLED
    assert isinstance(client.wait(running.id).error, restrike.Cancelled)
    assert client.wait(waiting.id).state is JobState.SUCCEEDED


def test_a_picture_is_uploaded_once(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "seven.png"
    restrike.load("digits", device="cpu").generate("a seven", seed=7).save(file)
    name = client.upload(file)
    assert name == client.upload(file)
    step = {"task": "colour.invert", "arguments": {"clip": name}}
    assert client.plan(Workflow(definition={"name": "turned", "steps": {"turned": step}})).rows


def test_a_server_that_is_not_there_is_not_found() -> None:
    with pytest.raises(NotFound, match=r"no server at .*; start one"):
        Client("http://127.0.0.1:9").jobs()
    with pytest.raises(Refused, match="no address of a server"):
        Client("127.0.0.1:8420")
