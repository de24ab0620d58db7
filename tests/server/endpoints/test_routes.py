"""What is asked of endpoints over REST before anything runs: lists, refusals, jobs that are accepted."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from restrike.server.app import create_app
from restrike.server.jobs.model import JobKind, JobState
from restrike.server.security.access import Access
from restrike.server.security.tokens import Scope, scopes_of
from restrike.server.service import Service

DRAW = "/api/endpoints/Studio/draw"


def refused(answer: Any, status: int = 422) -> str:
    assert answer.status_code == status, answer.text
    return answer.json()["detail"]


def test_the_list_tells_what_each_takes_and_gives(asked: TestClient) -> None:
    found = {each["name"]: each for each in asked.get("/api/endpoints").json()["endpoints"]}
    assert list(found) == ["Studio", "look", "painted", "digits", "shapes"]
    studio = found["Studio"]
    assert studio["summary"] == "Digits, well and badly."
    assert studio["slots"] == {"pipeline": {"tasks": ["text-to-image"], "model": "digits"}}
    assert studio["resources"]["cpus"] == 1
    assert studio["lock"] == {"state": "none", "findings": []}
    assert studio["handlers"]["draw"]["request"]["properties"]["steps"]["maximum"] == 1000
    assert studio["handlers"]["draw"]["response"]["title"] == "Saved"
    assert found["painted"]["slots"]["painter"]["model"] is None
    assert [found[name]["empty_slots"] for name in ("painted", "Studio", "digits")] == [["painter"], [], []]
    assert found["digits"]["kind"] == "card"
    assert asked.get("/api/endpoints/Studio").json() == studio


def test_no_path_of_the_server_is_told(asked: TestClient) -> None:
    assert "studio.py" not in asked.get("/api/endpoints").text


def test_what_is_accepted_is_a_job_like_any_other(asked: TestClient, service: Service) -> None:
    answer = asked.post(DRAW, json={"payload": {"steps": 2}, "seed": 5, "priority": 3})
    assert answer.status_code == 202
    job = answer.json()
    assert answer.headers["location"] == job["links"]["self"]
    assert (job["kind"], job["state"], job["priority"]) == ("endpoint", "queued", 3)
    assert job["label"] == "Studio.draw"
    kept = service.queue.job(job["id"])
    assert kept.kind is JobKind.ENDPOINT
    assert kept.needs
    assert kept.body["payload"] == {"steps": 2}
    assert asked.post(f"/api/jobs/{job['id']}/cancel").json()["state"] == JobState.CANCELLED


def test_the_only_handler_needs_no_name(asked: TestClient) -> None:
    assert asked.post("/api/endpoints/digits", json={"payload": {"prompt": "a two"}}).status_code == 202
    assert refused(asked.post("/api/endpoints/Studio", json={})).startswith("endpoint 'Studio' has several")


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        (DRAW, {"payload": {"steps": 0}}, 422, "payload.steps: 0 is less than the minimum of 1"),
        (DRAW, {"payload": {"colour": "red"}}, 422, "payload.colour: there is no such field"),
        (DRAW, {"payload": []}, 422, "payload"),
        (DRAW, {"colour": "red"}, 422, "colour"),
        (DRAW, {"seed": -1}, 422, "seed"),
        (DRAW, {"accept_plan": "0" * 64}, 422, "accept_plan"),
        (DRAW, {"workspace": "nowhere"}, 404, "no workspace 'nowhere'"),
        (DRAW, {"slots": {"pipelin": "digits"}}, 404, "unknown slot of endpoint 'Studio' 'pipelin'"),
        (
            DRAW,
            {"slots": {"pipeline": "digit"}},
            422,
            "slots.pipeline: no card 'digit'; did you mean 'digits'",
        ),
        (DRAW, {"slots": {"pipeline": "/etc"}}, 422, "slots.pipeline: a request names models by"),
        ("/api/endpoints/digits", {"slots": {"pipeline": "digits"}}, 422, "fills its own slot"),
        ("/api/endpoints/digits", {"payload": {}}, 422, "payload.prompt: field required"),
        ("/api/endpoints/look", {"payload": {"image": "/etc/passwd"}}, 422, "payload.image: "),
        ("/api/endpoints/painted", {}, 422, "slot 'painter' of endpoint 'painted' has no model"),
        ("/api/endpoints/Studi/draw", {}, 404, "unknown endpoint 'Studi', did you mean 'Studio'"),
        ("/api/endpoints/Studio/drew", {}, 404, "unknown handler of endpoint 'Studio' 'drew'"),
        ("/api/endpoints/wan", {}, 422, "card 'wan' needs weights"),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(
    asked: TestClient, service: Service, path: str, body: dict[str, Any], status: int, message: str
) -> None:
    assert message in refused(asked.post(path, json=body), status)
    assert service.history.jobs() == ()


def test_a_slot_may_be_filled_by_the_request(asked: TestClient) -> None:
    answer = asked.post("/api/endpoints/painted", json={"slots": {"painter": "shapes"}})
    assert answer.status_code == 202


def test_a_client_id_makes_a_retry_safe(asked: TestClient) -> None:
    body = {"payload": {"steps": 2}, "client_id": "once"}
    first, again = (asked.post(DRAW, json=body).json()["id"] for _ in range(2))
    assert first == again
    other = asked.post(DRAW, json={**body, "payload": {"steps": 3}})
    assert "was used for another job" in refused(other, 409)


def test_calling_needs_the_scope_run_and_trust_the_scope_admin(service: Service) -> None:
    tokens = {scope: service.tokens.create(scope, scopes_of([scope])) for scope in (Scope.READ, Scope.RUN)}
    app = create_app(service, Access(host="0.0.0.0", hosts=("localhost",)))
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as found:

        def status(token: str | None, body: dict[str, Any]) -> int:
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            return found.post(DRAW, json=body, headers=headers).status_code

        assert status(None, {}) == 401
        assert status(tokens[Scope.READ], {}) == 403
        assert status(tokens[Scope.RUN], {}) == 202
        assert status(tokens[Scope.RUN], {"trusted": True}) == 403


def test_a_workflow_cannot_pass_for_a_call(asked: TestClient, service: Service) -> None:
    step = {"generate": "digits", "arguments": {"prompt": "a two"}}
    flow = {"name": "sly", "steps": {"made": step}, "endpoint": "Studio", "handler": "draw"}
    assert "endpoint" in refused(asked.post("/api/jobs", json={"workflow": flow}))
    assert service.history.jobs() == ()
