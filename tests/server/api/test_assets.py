"""Assets: uploads that are whole or absent, ranges, and names that lead nowhere else."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from restrike.server.service import Service

DATA = bytes(range(256)) * 8
HOSTILE = [
    "../x.png",
    "..%2Fx.png",
    "%2e%2e/%2e%2e/x.png",
    "/etc/passwd",
    "%2Fetc%2Fpasswd",
    "a/../../x.png",
    "a%00b.png",
    "a\\..\\b.png",
    ".hidden",
    "a//b.png",
    "a/.restrike/x",
    "x" * 300,
    "a/" * 40 + "b",
]


def files(service: Service) -> list[Path]:
    found = service.place.workspaces.rglob("*")
    return sorted(path for path in found if path.is_file())


def test_an_upload_is_read_back_whole_and_by_ranges(client: TestClient) -> None:
    made = client.put("/api/assets/in/photo.png", content=DATA)
    assert made.status_code == 201
    assert made.json() == {"name": "in/photo.png", "reference": "$asset.in/photo.png", "size_bytes": 2048}
    whole = client.get("/api/assets/in/photo.png")
    assert whole.content == DATA
    assert whole.headers["content-type"] == "image/png"
    assert whole.headers["accept-ranges"] == "bytes"
    assert client.head("/api/assets/in/photo.png").headers["content-length"] == "2048"
    for given, content in (
        ("0-9", DATA[:10]),
        ("2040-", DATA[2040:]),
        ("-5", DATA[-5:]),
        ("2000-9999", DATA[2000:]),
    ):
        part = client.get("/api/assets/in/photo.png", headers={"range": f"bytes={given}"})
        assert (part.status_code, part.content) == (206, content)
    assert [asset["name"] for asset in client.get("/api/assets").json()["assets"]] == ["in/photo.png"]


def test_bad_ranges_are_refused(client: TestClient) -> None:
    client.put("/api/assets/photo.png", content=DATA)
    many = ",".join(["0-0"] * 50)
    for given in ("9999-", "5-2", "a-b", "-", "", "-0", "0-1,9999-", "0" * 400 + "-", many, "1-2-3"):
        answer = client.get("/api/assets/photo.png", headers={"range": f"bytes={given}"})
        assert answer.status_code == 416, given
        assert answer.headers["content-type"] == "application/problem+json"


def test_what_is_there_is_not_replaced_unasked(client: TestClient) -> None:
    client.put("/api/assets/photo.png", content=b"one")
    assert client.put("/api/assets/photo.png", content=b"two").status_code == 409
    assert client.get("/api/assets/photo.png").content == b"one"
    assert client.put("/api/assets/photo.png?replace=true", content=b"two").status_code == 201
    assert client.get("/api/assets/photo.png").content == b"two"
    assert client.delete("/api/assets/photo.png").status_code == 204
    assert client.get("/api/assets/photo.png").status_code == 404


def test_hostile_names_are_refused_and_nothing_is_written(client: TestClient, service: Service) -> None:
    (service.place.folder / "x.png").write_bytes(b"secret")
    before = files(service)
    for name in HOSTILE:
        assert client.put(f"/api/assets/{name}", content=DATA).status_code in (404, 405, 422), name
        answer = client.get(f"/api/assets/{name}")
        assert answer.status_code in (404, 405), name
        assert b"secret" not in answer.content
    assert files(service) == before
    # Control: a name that is one is taken.
    assert client.put("/api/assets/good name (1).png", content=DATA).status_code == 201


def test_a_link_that_leads_out_is_as_good_as_absent(client: TestClient, service: Service) -> None:
    secret = service.place.folder / "secret.txt"
    secret.write_text("secret")
    folder = service.place.workspace("default") / "assets"
    folder.mkdir()
    (folder / "link.txt").symlink_to(secret)
    (folder / "out").symlink_to(service.place.folder)
    assert client.get("/api/assets/link.txt").status_code == 404
    assert client.get("/api/assets/out/secret.txt").status_code == 404
    assert client.put("/api/assets/out/new.txt", content=b"x").status_code == 404
    assert not (service.place.folder / "new.txt").exists()


def test_what_a_browser_would_run_is_only_saved(client: TestClient) -> None:
    for name in ("page.html", "drawing.svg", "code.js"):
        client.put(f"/api/assets/{name}", content=b"<script>alert(1)</script>")
        answer = client.get(f"/api/assets/{name}")
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"].startswith("attachment")
        assert "sandbox" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_workspaces_do_not_see_each_other(client: TestClient) -> None:
    client.put("/api/workspaces/other")
    client.put("/api/assets/photo.png?workspace=other", content=DATA)
    assert client.get("/api/assets/photo.png").status_code == 404
    assert client.get("/api/assets/photo.png?workspace=other").content == DATA
    assert client.get("/api/assets?workspace=../default").status_code == 422


def test_the_disk_is_waited_for_off_the_event_loop(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[bool] = []

    def slow(descriptor: int) -> None:
        try:
            asyncio.get_running_loop()
            threads.append(False)
        except RuntimeError:
            threads.append(True)

    monkeypatch.setattr(os, "fsync", slow)
    assert client.put("/api/assets/a.bin", content=b"x").status_code == 201
    assert threads
    assert all(threads)
