"""Calls of endpoints on a real server with a real worker: what they make, and how they can end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

import restrike
from restrike.client import Call, Terms
from restrike.client.client import Client
from restrike.client.results import Job
from restrike.endpoints.finding import find
from restrike.endpoints.serving import Asked, Serving
from restrike.errors import NotFound, Refused
from restrike.media import provenance_of, read_picture, write
from restrike.server.jobs.model import JobState
from restrike.server.worker.options import RECYCLED
from server.endpoints.conftest import STUDIO
from serving import Server, until


def ended(client: Client, job: Job) -> Job:
    return client.wait(job.id)


def test_a_call_makes_what_it_makes_without_a_server(client: Client, tmp_path: Path) -> None:
    found = find(f"{STUDIO}:Studio", {"pipeline": "digits"})
    with restrike.Engine(device="cpu") as engine, Serving(found.endpoint, found.cards, engine) as serving:
        here = serving.call({"steps": 4}, Asked(handler="draw", seed=7, folder=tmp_path))
    job = ended(client, client.endpoint("Studio", {"steps": 4}, handler="draw", seed=7))
    assert job.state is JobState.SUCCEEDED, job.failure
    assert [file.sha256 for file in job.files] == [file.sha256 for file in here.files]
    assert job.record["seed"] == 7
    answer = job.record["answer"]
    assert answer["path"] == job.files[0].url
    assert {**answer, "path": ""} == {**here.value, "path": ""}
    (path,) = client.save(job.id, tmp_path / "home")
    made = provenance_of(path)
    assert made is not None
    assert (made.card, made.seed) == ("digits", 7)
    other = ended(client, client.endpoint("Studio", {"steps": 4}, handler="draw", seed=8))
    assert other.files[0].sha256 != job.files[0].sha256


def test_its_progress_is_told(client: Client) -> None:
    job = ended(client, client.endpoint("Studio", {"steps": 3}, handler="draw", seed=1))
    told = [event.data for event in client.happened(job.id) if event.kind == "progress"]
    assert [(data["fraction"], data["note"]) for data in told if "fraction" in data] == [
        (0.25, "begins"),
        (0.75, "saves"),
    ]
    assert [data["done"] for data in told if "seconds" in data] == [1, 2, 3]
    kinds = [event.kind for event in client.happened(job.id)]
    assert kinds.count("artifact") == 1
    assert kinds.count("step") == 2


def test_the_code_runs_in_workers_alone(client: Client, server: Server) -> None:
    ended(client, client.endpoint("Studio", {}, handler="draw"))
    imported_by = set((server.data.parent / "traces").read_text().split())
    assert str(server.process.pid) not in imported_by
    # The process that looked at it, and a worker.
    assert len(imported_by) >= 2


def test_pixels_of_its_own_tell_where_they_come_from(client: Client, tmp_path: Path) -> None:
    job = ended(client, client.endpoint("Studio", {"steps": 9}, handler="repaint", seed=3))
    assert job.record["answer"] == 4
    assert job.record["notices"] == ["steps 9 is not within 1 to 4; 4 was used"]
    (path,) = client.save(job.id, tmp_path)
    made = provenance_of(path)
    assert made is not None
    assert (made.card, made.seed) == ("endpoint Studio", 3)
    assert made.arguments["handler"] == "repaint"
    assert made.arguments["payload"] == {"prompt": "a seven", "steps": 9, "name": "digit.png"}


def test_a_card_is_called_like_any_endpoint(client: Client) -> None:
    job = ended(client, client.endpoint("digits", {"prompt": "a seven", "steps": 4}, seed=7))
    assert job.state is JobState.SUCCEEDED, job.failure
    assert [file.file for file in job.files] == ["digits-0.png"]
    same = ended(client, client.endpoint("Studio", {"steps": 4}, handler="draw", seed=7))
    assert same.files[0].sha256 == job.files[0].sha256
    (step,) = client.explain(job.id)
    assert step["how"][-1].startswith("capture answered 0 of 4 steps")


def test_a_picture_is_an_asset(client: Client, tmp_path: Path) -> None:
    write(tmp_path / "grey.png", np.full((1, 6, 10, 3), 90, np.uint8), fps=1.0)
    asset = client.upload(tmp_path / "grey.png")
    job = ended(client, client.endpoint("look", {"image": asset}))
    assert job.record["answer"] == list(read_picture(tmp_path / "grey.png").shape)


def test_a_slot_is_filled_by_the_call(client: Client) -> None:
    job = ended(client, client.submit(Call(endpoint="painted", slots={"painter": "digits"})))
    assert job.record["answer"] == "digits"
    other = ended(client, client.submit(Call(endpoint="painted", slots={"painter": "shapes"})))
    assert other.record["answer"] == "shapes"


def test_a_payload_that_does_not_fit_is_no_job(client: Client) -> None:
    before = client.jobs()
    with pytest.raises(Refused, match=r"payload\.steps") as told:
        client.endpoint("Studio", {"steps": 0}, handler="draw")
    assert [finding.path for finding in told.value.findings] == ["payload.steps"]
    with pytest.raises(NotFound, match="unknown endpoint"):
        client.endpoint("Studios", {})
    assert client.jobs() == before


def test_what_only_its_type_knows_is_refused_where_that_runs(client: Client) -> None:
    job = ended(client, client.endpoint("Studio", {"prompt": "an eight"}, handler="draw"))
    assert job.state is JobState.FAILED
    assert isinstance(job.error, Refused)
    assert "payload.prompt: value error, no eight is drawn here" in str(job.error)


def test_a_handler_that_raises_is_a_crash_at_its_line_and_leaves_no_file(
    client: Client, server: Server
) -> None:
    job = ended(client, client.endpoint("Studio", {}, handler="fail"))
    assert job.state is JobState.FAILED
    assert job.failure is not None
    assert (job.failure.kind, job.failure.step) == ("Crashed", "fail")
    assert "at studio.py:" in job.failure.reason
    assert "KeyError: 'nothing there'" in job.failure.reason
    assert job.files == ()
    left = server.data / "workspaces" / "default" / str(job.run)
    assert sorted(path.name for path in left.iterdir()) == ["manifest.json", "workflow.json"]
    assert ended(client, client.endpoint("Studio", {}, handler="draw")).state is JobState.SUCCEEDED


def test_folders_that_it_made_are_gone_too(client: Client, server: Server) -> None:
    runs = server.data / "workspaces" / "default" / "endpoint-Studio"
    job = ended(client, client.endpoint("Studio", {"runs": str(runs)}, handler="litter"))
    assert job.failure is not None
    assert "KeyError: 'nothing there'" in job.failure.reason
    left = sorted(path.name for path in (runs.parent / str(job.run)).iterdir())
    assert left == ["manifest.json", "workflow.json"]


@pytest.mark.parametrize(("status", "says"), [(0, "it ended by itself"), (RECYCLED, "it had grown")])
def test_one_that_ends_its_process_in_order_is_quarantined_too(
    client: Client, status: int, says: str
) -> None:
    job = ended(client, client.endpoint("Studio", {"status": status}, handler="quit"))
    assert (job.state, job.attempt, job.kills) == (JobState.QUARANTINED, 3, 3)
    assert job.failure is not None
    assert says in job.failure.reason


def test_a_copy_that_it_forks_answers_nothing(client: Client) -> None:
    job = ended(client, client.endpoint("Studio", {}, handler="fork"))
    assert (job.state, job.record["answer"]) == (JobState.SUCCEEDED, "the handler")
    assert job.attempt == 1


def test_an_answer_that_json_cannot_hold_is_a_crash(client: Client) -> None:
    job = ended(client, client.endpoint("Studio", {}, handler="odd"))
    assert job.failure is not None
    assert "returned what JSON cannot hold" in job.failure.reason


@pytest.mark.parametrize("name", ["../up.png", ".hidden.png", "a\\b.png", "manifest.json"])
def test_files_stay_in_its_own_folder(client: Client, server: Server, name: str) -> None:
    job = ended(client, client.endpoint("Studio", {"name": name}, handler="draw"))
    assert job.state is JobState.FAILED
    assert isinstance(job.error, Refused)
    assert not list(server.data.rglob("up.png"))


def test_a_cancelled_call_stops_at_its_next_step(client: Client, server: Server) -> None:
    job = client.endpoint("Studio", {"steps": 1000}, handler="draw")
    steps = (event for event in client.events(job.id) if "seconds" in event.data)
    next(steps)
    client.cancel(job.id)
    found = ended(client, job)
    assert found.state is JobState.CANCELLED
    assert found.files == ()
    done = [event.data["done"] for event in client.happened(job.id) if "seconds" in event.data]
    assert done[-1] < 1000
    waiting = client.endpoint("Studio", {}, handler="deaf")
    until(lambda: client.job(waiting.id).state is JobState.RUNNING)
    client.cancel(waiting.id)
    assert ended(client, waiting).state is JobState.CANCELLED


def test_a_job_of_a_worker_that_was_killed_is_done_again_with_its_seed(
    client: Client, tmp_path: Path
) -> None:
    counter = tmp_path / "counter"
    job = client.endpoint("Studio", {"times": 1, "counter": str(counter)}, handler="die")
    found = ended(client, job)
    assert found.state is JobState.SUCCEEDED, found.failure
    assert (found.attempt, found.kills, counter.read_text()) == (2, 1, "xx")
    assert [file.file for file in found.files] == ["two.png"]
    assert found.record["answer"] == found.record["seed"]


@pytest.mark.slow
def test_one_that_kills_every_worker_is_set_aside(client: Client, tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    job = client.endpoint("Studio", {"times": 9, "counter": str(counter)}, handler="die")
    found = ended(client, job)
    assert found.state is JobState.QUARANTINED
    assert counter.read_text() == "xxx"
    assert ended(client, client.endpoint("Studio", {}, handler="draw")).state is JobState.SUCCEEDED


def test_done_once_more_it_is_the_same(client: Client, server: Server) -> None:
    job = ended(client, client.endpoint("Studio", {"steps": 2}, handler="draw"))
    wire = client._wire
    again = wire.ask("POST", f"/api/jobs/{job.id}/rerun", tree={"seed": job.record["seed"]})
    run = wire.ask("POST", f"/api/runs/{job.run}/rerun")
    for name in (again["id"], run["id"]):
        found = client.wait(name)
        assert found.state is JobState.SUCCEEDED, found.failure
        assert [file.sha256 for file in found.files] == [file.sha256 for file in job.files]


def test_the_same_client_id_is_the_same_call(client: Client) -> None:
    call = Call(endpoint="Studio", handler="draw", payload={"steps": 2})
    first, again = (client.submit(call, Terms(client_id="draw-once")) for _ in range(2))
    assert first.id == again.id
    ended(client, first)


def test_coroutines_call_too(server: Server) -> None:
    async def ask() -> Job:
        client = restrike.AsyncClient(server.url)
        job = await client.endpoint("digits", {"prompt": "a two", "steps": 2}, seed=1)
        return await client.wait(job.id)

    assert asyncio.run(ask()).state is JobState.SUCCEEDED
