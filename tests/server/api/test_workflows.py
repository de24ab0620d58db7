"""Stored workflows: revisions, merge patches that lose nothing, and names that lead nowhere else."""

from __future__ import annotations

import threading
from typing import Any

from starlette.testclient import TestClient

from restrike.server.library import Library, merged
from restrike.server.service import Service

FLOW: dict[str, Any] = {
    "seed": 3,
    "steps": {"a": {"generate": "digits", "arguments": {"prompt": "seven"}}},
}


def test_every_change_is_a_revision(client: TestClient) -> None:
    assert client.put("/api/workflows/mine", json={"definition": FLOW}).json()["revision"] == 1
    patch = {"steps": {"a": {"arguments": {"prompt": "two"}}}}
    changed = client.patch("/api/workflows/mine", json=patch).json()
    assert changed["revision"] == 2
    assert changed["definition"]["steps"]["a"]["arguments"] == {"prompt": "two"}
    assert client.get("/api/workflows/mine").json()["definition"] == changed["definition"]
    first = client.get("/api/workflows/mine?revision=1").json()
    assert first["definition"]["steps"]["a"]["arguments"] == {"prompt": "seven"}
    assert client.get("/api/workflows/mine/revisions").json() == {"revisions": [2, 1]}
    assert client.get("/api/workflows/mine?revision=3").status_code == 404
    assert client.get("/api/workflows").json() == {"workflows": ["mine"]}
    assert client.delete("/api/workflows/mine").status_code == 204
    assert client.get("/api/workflows/mine").status_code == 404


def test_a_change_on_an_older_revision_is_a_conflict(client: TestClient) -> None:
    client.put("/api/workflows/mine?on=0", json={"definition": FLOW})
    assert client.put("/api/workflows/mine?on=0", json={"definition": FLOW}).status_code == 409
    assert client.patch("/api/workflows/mine?on=1", json={"seed": 4}).status_code == 200
    assert client.patch("/api/workflows/mine?on=1", json={"seed": 5}).status_code == 409
    assert client.get("/api/workflows/mine").json()["definition"]["seed"] == 4


def test_a_fault_of_form_changes_nothing(client: TestClient) -> None:
    client.put("/api/workflows/mine", json={"definition": FLOW})
    answer = client.patch("/api/workflows/mine", json={"steps": {"a": {"generat": "digits"}}})
    assert answer.status_code == 422
    assert answer.json()["findings"][0]["path"].startswith("steps.a")
    assert client.get("/api/workflows/mine").json()["revision"] == 1


def test_patches_at_once_lose_nothing(service: Service) -> None:
    library = Library(service.place.workspace("default"))
    library.save("mine", FLOW)

    def patch(number: int) -> None:
        step = {"generate": "digits", "arguments": {"prompt": "one"}}
        Library(service.place.workspace("default")).patch("mine", {"steps": {f"s{number}": step}})

    threads = [threading.Thread(target=patch, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = library.read("mine")
    assert set(found.definition["steps"]) == {"a", *(f"s{number}" for number in range(12))}
    assert found.revision == 13


def test_merge_patches_are_those_of_rfc_7396() -> None:
    cases = [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ]
    for target, change, result in cases:
        assert merged(target, change) == result


def test_names_lead_nowhere_else(client: TestClient, service: Service) -> None:
    before = sorted(service.place.folder.rglob("*"))
    for name in ("..", "a%2Fb", ".hidden", "a.b", "x" * 200, "%00", "a%5Cb"):
        assert client.put(f"/api/workflows/{name}", json={"definition": FLOW}).status_code in (404, 405, 422)
        assert client.get(f"/api/workflows/{name}").status_code in (404, 405, 422)
    assert sorted(service.place.folder.rglob("*")) == before
