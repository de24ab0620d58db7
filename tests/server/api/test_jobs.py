"""Jobs over REST, on the real queue, without workers: what is accepted, refused, and told of both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from restrike.server.jobs.model import JobKind, JobState, Outcome, WorkerFacts
from restrike.server.service import Service
from restrike.server.submitting import Work, graph_of
from restrike.server.workers import WorkerRow
from restrike.store.owner import Owner

SEVEN = {"card": "digits", "prompt": "seven", "seed": 3, "steps": 2}


def flow(prompt: str = "seven", **more: Any) -> dict[str, Any]:
    return {
        "seed": 3,
        "steps": {"a": {"generate": "digits", "arguments": {"prompt": prompt, "steps": 2}}},
        **more,
    }


def submit(client: TestClient, status: int = 202, **form: Any) -> Any:
    answer = client.post("/api/jobs", json=form)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_a_generation_is_durable_once_it_has_an_id(client: TestClient, service: Service) -> None:
    job = submit(client, generation=SEVEN)
    kept = service.queue.job(job["id"])
    assert kept.state is JobState.QUEUED
    assert kept.body["prompt"] == "seven"
    assert kept.needs
    assert job["position"] == 0
    assert job["title"] == "seven"


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"generation": SEVEN, "sed": 3}, "sed"),
    ({"generation": {**SEVEN, "stpes": 3}}, "generation.stpes"),
    ({"generation": {**SEVEN, "steps": -1}}, "steps"),
    ({"generation": {**SEVEN, "card": "digit"}}, "card"),
    ({"workflow": flow(steps={"a": {"generate": "digits"}})}, "steps.a.arguments"),
    ({"workflow": "none"}, "none"),
    ({"text": "steps: ["}, "YAML"),
    ({}, "say what to do in one of"),
    ({"generation": SEVEN, "workflow": flow()}, "give one of them"),
    ({"generation": SEVEN, "seed": 4}, "seed"),
    ({"generation": SEVEN, "workspace": "../default"}, "workspace"),
    ({"generation": SEVEN, "workspace": "elsewhere"}, "elsewhere"),
]


def test_what_is_wrong_is_refused_by_name(client: TestClient, service: Service) -> None:
    for form, named in WRONG:
        answer = client.post("/api/jobs", json=form)
        assert answer.status_code in (404, 422), form
        assert answer.headers["content-type"] == "application/problem+json"
        assert named in answer.json()["detail"]
    assert service.history.counts()["queued"] == 0


def test_what_curl_sends_without_a_type_is_told_how_to_be_sent(client: TestClient) -> None:
    answer = client.post("/api/jobs", content=b'{"generation": {}}')
    assert answer.status_code == 422
    assert "Content-Type: application/json" in answer.json()["detail"]


def test_a_route_of_another_server_is_told_where_the_routes_are(client: TestClient) -> None:
    assert client.post("/prompt", json={}).json()["detail"] == (
        "nothing is at /prompt; /openapi.json tells what is"
    )


def test_a_method_that_a_path_has_not_is_told_which_it_has(client: TestClient) -> None:
    refused = client.delete("/api/jobs")
    assert refused.status_code == 405
    assert refused.headers["allow"] == "GET, POST"
    assert refused.json()["detail"] == "DELETE is not possible at /api/jobs; it takes GET and POST"


SPELT: tuple[tuple[dict[str, Any], str], ...] = (
    ({"prompt": "a seven", "steps": 2}, 'put prompt and steps in `generation`, as in {"generation": {'),
    ({}, 'say what to do in one of workflow, text and generation, as in {"generation": {"card": "shapes"'),
    ({"workflow": "a", "text": "b"}, "workflow and text are both given; give one of them"),
    ({"generation": {**SEVEN, "steps": "many"}}, "generation.steps: 'many' is not a whole number"),
    ({"generation": {"card": "digits"}}, "generation.prompt: it is missing; give it"),
    ({"generation": SEVEN, "priority": 1001}, "priority: 1001 is not at most 1000"),
)


@pytest.mark.parametrize(("form", "said"), SPELT, ids=[said for _, said in SPELT])
def test_a_fault_of_form_is_told_in_our_words(client: TestClient, form: dict[str, Any], said: str) -> None:
    refused = submit(client, status=422, **form)
    assert refused["detail"].startswith(said)


def test_a_body_that_is_no_json_is_told_why(client: TestClient) -> None:
    refused = client.post("/api/jobs", content=b"{nope", headers={"Content-Type": "application/json"})
    assert refused.status_code == 422
    (finding,) = refused.json()["findings"]
    assert finding["path"] == ""
    assert finding["message"].startswith("the body is not JSON: ")


def test_all_findings_come_at_once(client: TestClient) -> None:
    wrong = flow(steps={"a": {"generate": "digit"}, "b": {"task": "no.such"}})
    answer = submit(client, status=422, workflow=wrong)
    assert [each["path"] for each in answer["findings"]] == ["steps.a.generate", "steps.b.task"]


def test_a_prompt_that_means_nothing_to_the_card_is_refused_before_it_waits(client: TestClient) -> None:
    answer = submit(client, status=422, generation={"card": "digits", "prompt": "a cat"})
    assert [each["path"] for each in answer["findings"]] == ["prompt"]
    assert answer["findings"][0]["message"].startswith("prompt 'a cat' names no digit; card 'digits' draws")


def test_an_empty_text_is_refused(client: TestClient) -> None:
    submit(client, status=422, text="")


def test_a_retry_is_the_same_job_and_other_work_a_conflict(client: TestClient, service: Service) -> None:
    for form in ({"generation": SEVEN}, {"workflow": flow()}):
        name = next(iter(form))
        first = submit(client, **form, client_id=name)
        assert submit(client, **form, client_id=name)["id"] == first["id"]
        other = {"generation": {**SEVEN, "seed": 4}} if name == "generation" else {"workflow": flow("two")}
        submit(client, status=409, **other, client_id=name)
    assert service.history.counts()["queued"] == 2


def test_a_retry_is_the_same_job_after_its_workflow_was_edited(client: TestClient) -> None:
    client.put("/api/workflows/mine", json={"definition": flow("one")})
    first = submit(client, workflow="mine", client_id="c")
    client.put("/api/workflows/mine", json={"definition": flow("two")})
    assert submit(client, workflow="mine", client_id="c")["id"] == first["id"]
    assert submit(client, workflow="mine", client_id="d")["id"] != first["id"]


def test_editing_what_was_submitted_changes_nothing_that_waits(client: TestClient, service: Service) -> None:
    folder = service.place.workspace("default")
    (folder / "prompts").mkdir()
    (folder / "prompts" / "mine.txt").write_text("one")
    client.put("/api/workflows/inner", json={"definition": flow("$prompt.mine")})
    outer = {"steps": {"b": {"workflow": "inner.json"}}}
    client.put("/api/workflows/outer", json={"definition": outer})
    job = submit(client, workflow="outer")
    (folder / "prompts" / "mine.txt").write_text("two")
    client.delete("/api/workflows/inner")
    kept = client.get(f"/api/jobs/{job['id']}/body").json()["definition"]
    assert kept["steps"]["b"]["workflow"]["steps"]["a"]["arguments"]["prompt"] == "one"
    assert kept["seed"] == "random"
    # Control: what is submitted now sees the edit.
    submit(client, status=422, workflow="outer")


def test_a_plan_that_changed_is_a_conflict_that_says_how_to_go_on(client: TestClient) -> None:
    plan = client.post("/api/plan", json={"workflow": flow()}).json()
    submit(client, workflow=flow(), accept_plan=plan["fingerprint"])
    answer = submit(client, status=409, workflow=flow("two"), accept_plan=plan["fingerprint"])
    assert answer["plan"]["rows"][0]["action"] == "a"
    submit(client, workflow=flow("two"), **answer["resend"])


def test_limits_refuse_before_work(client: TestClient, service: Service) -> None:
    (action,) = graph_of(service, Work(kind=JobKind.GENERATION, body=SEVEN)).actions
    for _ in range(3):
        service.store.record_timing(action.operation.timing_label(action.arguments), 50.0)
    assert client.post("/api/plan", json={"generation": SEVEN}).json()["seconds"] == 50.0
    answer = submit(client, status=422, generation=SEVEN, max_seconds=49)
    assert "max_seconds" in answer["detail"]
    assert service.history.counts()["queued"] == 0
    submit(client, generation=SEVEN, max_seconds=51, max_download_bytes=0)


def test_what_fits_no_device_is_refused_naming_the_largest(client: TestClient, service: Service) -> None:
    row = WorkerRow(
        id="w", device="cpu:0", owner=str(Owner.here()), server=str(Owner.here()), memory_bytes=1000
    )
    service.workers.register(row)
    assert "cpu:0" in submit(client, status=422, generation=SEVEN)["detail"]
    service.workers.leave("w")
    submit(client, generation=SEVEN)


def test_a_waiting_job_says_what_it_waits_for(client: TestClient, service: Service) -> None:
    def why() -> str:
        return client.get(f"/api/jobs/{job}").json()["why"]

    before, job = (submit(client, generation={**SEVEN, "seed": seed})["id"] for seed in (1, 2))
    assert "no worker" in why()
    row = WorkerRow(
        id="w", device="cpu:0", owner=str(Owner.here()), server=str(Owner.here()), memory_bytes=1000
    )
    service.workers.register(row)
    assert "the largest device, cpu:0, has 1000" in why()
    service.workers.leave("w")
    service.workers.register(replace(row, memory_bytes=1 << 40))
    assert why() == "1 ahead of it in the queue"
    client.delete(f"/api/jobs/{before}")
    assert why() == "the next worker that is free takes it"
    client.put("/api/switches", json={"paused": True})
    assert "paused" in why()


def test_what_main_memory_cannot_pass_on_to_a_device_is_refused(client: TestClient, service: Service) -> None:
    here = str(Owner.here())
    row = WorkerRow(id="w", device="cuda:0", owner=here, server=here, memory_bytes=1 << 40, host_bytes=1000)
    service.workers.register(row)
    assert "through main memory; that has 1000" in submit(client, status=422, generation=SEVEN)["detail"]
    # The controls: another worker with more of it, and a device whose memory is main memory itself.
    for other in (replace(row, id="v", host_bytes=1 << 40), replace(row, id="v", host_bytes=None)):
        service.workers.register(other)
        submit(client, generation=SEVEN)
        service.workers.leave("v")


def test_jobs_are_listed_page_by_page_and_by_workspace(client: TestClient) -> None:
    client.put("/api/workspaces/other")
    ids = [submit(client, generation={**SEVEN, "seed": seed})["id"] for seed in range(5)]
    elsewhere = submit(client, generation=SEVEN, workspace="other")["id"]
    page, seen = client.get("/api/jobs?limit=2").json(), []
    while page["jobs"]:
        seen += [job["id"] for job in page["jobs"]]
        if page["next"] is None:
            break
        page = client.get("/api/jobs", params={"limit": 2, "before": page["next"]}).json()
    assert seen == ids[::-1]
    others = client.get("/api/jobs?workspace=other").json()["jobs"]
    assert [job["id"] for job in others] == [elsewhere]


def test_move_changes_the_position(client: TestClient) -> None:
    first, second = (submit(client, generation={**SEVEN, "seed": seed})["id"] for seed in (1, 2))
    assert client.get(f"/api/jobs/{second}").json()["position"] == 1
    assert client.post(f"/api/jobs/{second}/move", json={"before": first}).json()["position"] == 0
    assert client.get(f"/api/jobs/{first}").json()["position"] == 1
    assert client.post(f"/api/jobs/{first}/move", json={"priority": 5}).json()["position"] == 0


def test_cancelling_what_waits_is_at_once_and_what_ended_stays(client: TestClient, service: Service) -> None:
    job = submit(client, generation=SEVEN)["id"]
    assert client.delete(f"/api/jobs/{job}").json()["state"] == "cancelled"
    assert client.post(f"/api/jobs/{job}/cancel").json()["state"] == "cancelled"
    assert client.post(f"/api/jobs/{job}/move", json={"priority": 1}).status_code == 409
    facts = WorkerFacts(id="w", device="cpu:0", memory_bytes=1 << 40)
    assert service.queue.claim(facts) is None


def test_again_with_its_seed_or_another(client: TestClient, service: Service) -> None:
    job = submit(client, generation=SEVEN)["id"]
    same = client.post(f"/api/jobs/{job}/rerun").json()["id"]
    other = client.post(f"/api/jobs/{job}/rerun", json={"new_seed": True}).json()["id"]
    assert service.queue.job(same).body == service.queue.job(job).body
    assert service.queue.job(other).body["seed"] != 3
    flowing = submit(client, workflow=flow())["id"]
    again = client.post(f"/api/jobs/{flowing}/rerun", json={"seed": 9}).json()["id"]
    assert service.queue.job(again).body["seed"] == 9


def test_again_with_the_seed_that_was_drawn_for_it(client: TestClient, service: Service) -> None:
    work = {name: value for name, value in SEVEN.items() if name != "seed"}
    job = submit(client, generation=work)["id"]
    waiting = client.post(f"/api/jobs/{job}/rerun").json()["id"]
    assert service.queue.job(waiting).body == service.queue.job(job).body
    assert service.queue.claim(WorkerFacts(id="w", device="cpu:0", memory_bytes=1 << 40)) is not None
    service.queue.finish(job, 1, Outcome(state=JobState.SUCCEEDED, record={"seed": 11}))
    same = client.post(f"/api/jobs/{job}/rerun").json()["id"]
    other = client.post(f"/api/jobs/{job}/rerun", json={"seed": 12}).json()["id"]
    assert [service.queue.job(each).body["seed"] for each in (same, other)] == [11, 12]


def test_an_unknown_id_is_unknown(client: TestClient) -> None:
    for path in ("", "/events", "/log", "/body", "/previews/000001.webp"):
        assert client.get(f"/api/jobs/job-0{path}").status_code in (404, 422)
    assert client.post("/api/jobs/job-0/cancel").status_code == 404


def test_draining_refuses_and_pausing_does_not(client: TestClient, service: Service) -> None:
    assert client.put("/api/switches", json={"paused": True}).json() == {"paused": True, "draining": False}
    submit(client, generation=SEVEN)
    assert service.queue.claim(WorkerFacts(id="w", device="cpu:0", memory_bytes=1 << 40)) is None
    client.put("/api/switches", json={"draining": True})
    submit(client, status=422, generation={**SEVEN, "seed": 9})
    client.put("/api/switches", json={"paused": False, "draining": False})
    assert service.queue.claim(WorkerFacts(id="w", device="cpu:0", memory_bytes=1 << 40)) is not None


def test_what_nobody_can_keep_is_refused(client: TestClient, service: Service) -> None:
    bodies = (
        b'{"workflow": {"steps": {"a": {"generate": "digits", "arguments": {"prompt": "\\ud800"}}}}}',
        b'{"workflow": {"seed": NaN, "steps": {}}}',
        b'{"generation": {"prompt": "x", "guidance": 1e999}}',
        b'{"generation": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b"\xff\xfe",
        b"[]",
    )
    for body in bodies:
        answer = client.post("/api/jobs", content=body, headers={"content-type": "application/json"})
        assert answer.status_code in (400, 422), (body[:60], answer.text)
    assert service.history.counts()["queued"] == 0


def test_numbers_for_prometheus(client: TestClient) -> None:
    submit(client, generation=SEVEN)
    text = client.get("/metrics").text
    assert 'restrike_jobs{state="queued"} 1.0' in text
    assert 'route="/api/jobs"' in text


def test_the_words_of_a_client_come_back_as_they_were(client: TestClient, service: Service) -> None:
    prompt = f"a circle, as in {service.place.folder}/seven.png"
    job = client.post("/api/jobs", json={"generation": {"card": "shapes", "prompt": prompt}}).json()
    assert job["title"] == prompt
    assert client.get("/api/jobs").json()["jobs"][0]["title"] == prompt
    assert client.get(f"/api/jobs/{job['id']}/body").json()["prompt"] == prompt
    # Control: what the server says of its folder is told by its word.
    problem = client.post(
        "/api/jobs", json={"generation": {"card": str(service.place.folder), "prompt": "x"}}
    )
    assert str(service.place.folder) not in problem.text
