"""The gate: hosts, origins, tokens and scopes, on every way to write a path of the interface."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from starlette.testclient import TestClient

from restrike.errors import Refused
from restrike.server.app import create_app
from restrike.server.database.connect import Database
from restrike.server.place import Place
from restrike.server.security.access import Access, is_loopback
from restrike.server.security.tokens import Scope, scopes_of
from restrike.server.service import Service

OUTSIDE = Access(host="0.0.0.0", hosts=("studio.example",))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    place = Place(folder=tmp_path_factory.mktemp("guard") / "data")
    place.make()
    database = Database(place.database_url)
    database.migrate()
    yield Service(place=place, database=database)
    database.close()


@pytest.fixture(scope="module")
def tokens(service: Service) -> dict[str, str]:
    return {name: service.tokens.create(name, scopes_of([name])) for name in Scope}


@pytest.fixture(scope="module")
def local(service: Service) -> TestClient:
    return TestClient(create_app(service), base_url="http://localhost:8420")


@pytest.fixture(scope="module")
def outside(service: Service, tokens: dict[str, str]) -> TestClient:
    return TestClient(create_app(service, OUTSIDE), base_url="http://studio.example:8420")


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_only_a_name_of_the_server_is_answered(local: TestClient) -> None:
    for host in ("localhost", "localhost:8420", "127.0.0.1:8420", "[::1]:8420", "LOCALHOST"):
        assert local.get("/healthz", headers={"host": host}).status_code == 200, host
    foreign = ("evil.example", "localhost.evil.example", "localhost@evil.example", "192.168.1.2", "", "a b")
    for host in (*foreign, "localhost/evil", "localhost:port", "127.0.0.1.nip.example"):
        assert local.get("/healthz", headers={"host": host}).status_code == 400, host


def test_a_page_of_another_origin_may_not_call(local: TestClient) -> None:
    for origin in ("http://evil.example", "null", "http://localhost:3000", "https://localhost.evil", "x"):
        for method in ("GET", "POST"):
            answer = local.request(method, "/api/jobs", headers={"origin": origin})
            assert answer.status_code == 403, origin
    assert local.get("/api/jobs", headers={"origin": "http://localhost:8420"}).status_code == 200
    assert local.get("/api/jobs", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert local.get("/", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}).is_success
    assert "access-control-allow-origin" not in local.get("/api/jobs").headers


def test_an_origin_that_is_allowed_may_call(service: Service) -> None:
    access = Access(origins=("https://studio.example",))
    client = TestClient(create_app(service, access), base_url="http://localhost")
    answer = client.get("/api/jobs", headers={"origin": "https://studio.example"})
    assert answer.headers["access-control-allow-origin"] == "https://studio.example"
    assert client.get("/api/jobs", headers={"origin": "https://evil.example"}).status_code == 403


def test_every_route_needs_a_token_where_others_can_come_in(outside: TestClient, local: TestClient) -> None:
    paths = set(outside.app.openapi()["paths"])  # type: ignore[attr-defined]
    closed = {re.sub(r"{\w+}", "1", path) for path in paths - {"/healthz", "/readyz", "/api/session"}}
    assert len(closed) > 40
    spellings = ("/API/jobs", "//api/jobs", "/api//jobs", "/api/jobs/", "/api/%6aobs", "/x/../api/jobs")
    for path in (*closed, *spellings, "/openapi.json", "/mcp", "/page/../api/jobs", "/page%2f..%2fapi/jobs"):
        for headers in ({}, bearer("rst_000000000000_" + "A" * 43), {"authorization": "Basic eDp5"}):
            answer = outside.get(path, headers=headers)
            assert answer.status_code == 401, (path, headers)
            assert answer.headers["www-authenticate"] == "Bearer"
    # Control: the same server on loopback alone needs none.
    assert local.get("/api/jobs").status_code == 200


def test_scopes(outside: TestClient, tokens: dict[str, str]) -> None:
    def status(scope: str, method: str, path: str, **more: object) -> int:
        return outside.request(method, path, headers=bearer(tokens[scope]), **more).status_code  # type: ignore[arg-type]

    form = {"generation": {"card": "digits", "prompt": "seven", "seed": 3}}
    expected = [
        ("GET", "/api/jobs", None, 200, 200, 200),
        ("POST", "/api/plan", form, 200, 200, 200),
        ("POST", "/api/jobs", form, 403, 202, 202),
        ("POST", "/api/jobs", {**form, "trusted": True}, 403, 403, 202),
        ("PUT", "/api/switches", {}, 403, 403, 200),
        ("GET", "/api/tokens", None, 403, 403, 200),
        ("POST", "/api/store/verify", None, 403, 403, 200),
        ("PUT", "/api/workspaces/w", None, 403, 403, 200),
        ("POST", "/mcp", {}, 403, None, None),
    ]
    for method, path, body, *statuses in expected:
        for scope, wanted in zip(Scope, statuses, strict=True):
            if wanted is not None:
                assert status(scope, method, path, json=body) == wanted, (scope, method, path)


def test_a_rerun_is_trusted_as_whoever_asks_for_it(
    outside: TestClient, tokens: dict[str, str], tmp_path: Path
) -> None:
    style = tmp_path / "style.safetensors"
    name = "transformer.blocks.0.qkv"
    save_file(
        {f"{name}.lora_A.weight": torch.ones(1, 96), f"{name}.lora_B.weight": torch.ones(288, 1)}, style
    )
    arguments = {"prompt": "seven", "adapters": [str(style)]}
    flow = {"name": "styled", "steps": {"a": {"generate": "digits", "arguments": arguments}}}
    body = {"workflow": flow, "trusted": True}
    job = outside.post("/api/jobs", json=body, headers=bearer(tokens["admin"])).json()["id"]

    def again(scope: str) -> int:
        return outside.post(f"/api/jobs/{job}/rerun", headers=bearer(tokens[scope])).status_code

    assert again("run") == 422
    assert again("admin") == 202


def test_only_an_admin_clears_memory(outside: TestClient, tokens: dict[str, str]) -> None:
    statuses = {
        scope: outside.post("/api/memory/clear", headers=bearer(token)).status_code
        for scope, token in tokens.items()
    }
    assert statuses == {"read": 403, "run": 403, "admin": 200}


def test_a_browser_gets_a_cookie_that_no_script_reads(outside: TestClient, tokens: dict[str, str]) -> None:
    assert outside.post("/api/session", json={"token": "rst_no"}).status_code == 401
    answer = outside.post("/api/session", json={"token": tokens["read"]})
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert outside.get("/api/jobs").status_code == 200
    outside.delete("/api/session")
    outside.cookies.clear()
    assert outside.get("/api/jobs").status_code == 401


def test_a_token_is_kept_as_a_hash_and_can_be_taken_back(service: Service, outside: TestClient) -> None:
    token = service.tokens.create("short-lived", scopes_of(["read"]))
    secret = token.split("_", 2)[2]
    for path in service.place.folder.glob("restrike.sqlite*"):
        assert secret.encode() not in path.read_bytes()
    assert outside.get("/api/jobs", headers=bearer(token)).status_code == 200
    assert outside.get("/api/jobs", headers=bearer(token[:-1] + "x")).status_code == 401
    service.tokens.delete("short-lived")
    assert outside.get("/api/jobs", headers=bearer(token)).status_code == 401


def test_no_token_no_listening_to_others(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'a.sqlite'}")
    database.migrate()
    service = Service(place=Place(folder=tmp_path), database=database)
    with pytest.raises(Refused, match="needs a token"):
        Access(host="0.0.0.0").check(service.tokens)
    Access(host="127.0.0.1").check(service.tokens)
    service.tokens.create("me", scopes_of(["admin"]))
    Access(host="0.0.0.0").check(service.tokens)
    database.close()
    assert is_loopback("127.9.9.9")
    assert is_loopback("::1")
    assert not is_loopback("localhost.evil.example")


def test_what_can_be_read_in_two_ways_is_refused(local: TestClient) -> None:
    for headers, status in (
        ({"transfer-encoding": "chunked", "content-length": "3"}, 400),
        ({"transfer-encoding": "gzip, chunked"}, 400),
        ({"content-encoding": "gzip"}, 415),
        ({"range": "bytes=" + ",".join(["0-0"] * 9)}, 416),
    ):
        assert local.post("/api/validate", content=b"{}", headers=headers).status_code == status


@pytest.mark.parametrize("name", ["authorization", "origin", "range", "last-event-id"])
def test_what_comes_twice_is_refused(local: TestClient, name: str) -> None:
    twice = [(name, "http://localhost"), (name, "http://evil.example")]
    assert local.get("/api/jobs", headers=twice).status_code == 400
