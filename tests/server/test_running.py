"""REST against a server with a real worker: bytes of the command line, events, gallery, export, no paths."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import httpx
import pytest

from restrike.cli.app import run
from serving import Server

SEVEN = {"card": "digits", "prompt": "seven", "seed": 11, "steps": 3, "output": "png", "n": 2}


def ended(server: Server, job: str) -> dict[str, Any]:
    """A job when its stream has ended."""
    with httpx.stream("GET", f"{server.url}/api/jobs/{job}/events", timeout=120) as answer:
        for line in answer.iter_lines():
            if line == "event: end":
                break
    return httpx.get(f"{server.url}/api/jobs/{job}").json()


def done(server: Server, **form: Any) -> dict[str, Any]:
    answer = httpx.post(f"{server.url}/api/jobs", json=form, timeout=30)
    assert answer.status_code == 202, answer.text
    found = ended(server, answer.json()["id"])
    assert found["state"] == "succeeded", found
    return found


def test_the_bytes_are_those_of_the_command_line(server: Server, tmp_path: Path) -> None:
    job = done(server, generation=SEVEN)
    files = [httpx.get(f"{server.url}{file['url']}") for file in job["files"]]
    hashes = [hashlib.sha256(file.content).hexdigest() for file in files]
    assert hashes == [file["sha256"] for file in job["files"]]
    assert {file.headers["content-type"] for file in files} == {"image/png"}
    flow = tmp_path / "generation.json"
    arguments = {"prompt": "seven", "steps": 3, "count": 2}
    step = {"generate": "digits", "arguments": arguments, "result": {"container": "png"}}
    flow.write_text(json.dumps({"seed": 11, "steps": {"picture": step}}))
    assert run(["run", str(flow), "--workspace", str(tmp_path), "--device", "cpu"]) == 0
    written = sorted((tmp_path / "generation" / "0001").glob("*.png"))
    assert [hashlib.sha256(path.read_bytes()).hexdigest() for path in written] == hashes
    assert job["why"]
    assert job["record"]["generations"]["picture"]["weights"]
    assert job["record"]["seconds"]["picture"] > 0


def test_what_is_kept_is_reused_and_told(server: Server) -> None:
    flow = {"seed": 5, "steps": {"a": {"generate": "digits", "arguments": {"prompt": "two", "steps": 2}}}}
    first = done(server, workflow=flow)
    plan = httpx.post(f"{server.url}/api/plan", json={"workflow": flow}).json()
    assert [row["status"] for row in plan["rows"]] == ["reused"]
    again = httpx.post(f"{server.url}/api/jobs/{first['id']}/rerun").json()
    assert ended(server, again["id"])["record"]["reused"] == ["a"]
    explained = httpx.get(f"{server.url}/api/runs/{first['run']}/explain").json()
    assert explained["steps"][0]["action"] == "a"


def test_the_gallery_leads_to_provenance_and_to_another_run(server: Server) -> None:
    job = done(server, generation={**SEVEN, "seed": 12, "n": 1})
    page = httpx.get(f"{server.url}/api/gallery?limit=5").json()
    shown = next(file for file in page["files"] if file["run"] == job["run"])
    made = httpx.get(f"{server.url}/api/runs/{job['run']}/provenance/{shown['file']}").json()
    assert (made["card"], made["seed"], made["arguments"]["prompt"]) == ("digits", 12, "seven")
    again = httpx.post(f"{server.url}/api/runs/{job['run']}/rerun", json={"seed": 13}).json()
    assert ended(server, again["id"])["state"] == "succeeded"


def test_a_kept_file_and_an_export_outlive_the_run(server: Server) -> None:
    url = server.url
    photo = httpx.get(f"{url}{done(server, generation=SEVEN)['files'][0]['url']}").content
    assert httpx.put(f"{url}/api/assets/in.png?replace=true", content=photo).status_code == 201
    step = {"task": "picture.resize", "arguments": {"clip": "$asset.in.png", "width": 16, "height": 16}}
    job = done(server, workflow={"steps": {"small": step}})
    file = job["files"][0]["file"]
    with zipfile.ZipFile(io.BytesIO(httpx.get(f"{url}/api/runs/{job['run']}/export").content)) as archive:
        names = archive.namelist()
        assert set(names) == {"workflow.json", "manifest.json", f"outputs/{file}", "inputs/assets/in.png"}
        assert json.loads(archive.read("manifest.json"))["run"] == job["run"]
    form = {"run": job["run"], "file": file, "name": "kept.png", "replace": True}
    assert httpx.post(f"{url}/api/assets/keep", json=form).status_code == 201
    before = httpx.get(f"{url}{job['files'][0]['url']}").content
    assert httpx.delete(f"{url}/api/runs/{job['run']}").status_code == 204
    assert httpx.get(f"{url}{job['files'][0]['url']}").status_code == 404
    assert httpx.get(f"{url}/api/assets/kept.png").content == before


def test_no_answer_tells_where_the_server_keeps_its_things(server: Server) -> None:
    url = server.url
    httpx.put(f"{url}/api/assets/broken.png?replace=true", content=b"no picture")
    step = {"task": "picture.resize", "arguments": {"clip": "$asset.broken.png", "width": 9, "height": 9}}
    flow = {"steps": {"small": step}}
    answers = [httpx.post(f"{url}/api/jobs", json={"workflow": flow})]
    job = ended(server, answers[0].json()["id"])
    assert job["state"] == "failed"
    assert job["failure"]["class"] == "refused"
    assert "broken.png" in job["failure"]["reason"]
    answers.append(httpx.get(f"{url}/api/jobs/{job['id']}/log"))
    answers.append(httpx.get(f"{url}/api/jobs/{job['id']}"))
    paths = ["/api/runs/none/1", "/api/runs", "/api/devices", "/api/store", "/api/cells", "/readyz"]
    paths += ["/api/jobs", "/api/gallery", "/api/assets/none", "/api/jobs/x", "/api/runs/generation/999"]
    answers += [httpx.get(f"{url}{path}") for path in paths]
    for answer in answers:
        for folder in (server.data, server.data.parent, Path.home(), Path(httpx.__file__).parents[1]):
            assert str(folder) not in answer.text, answer.url


def test_the_page_asks_for_nothing_elsewhere(server: Server) -> None:
    for path in ("/", "/docs"):
        page = httpx.get(f"{server.url}{path}")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "http" not in page.text.replace("http-equiv", "")
    for name in ("app.js", "jobs.js", "gallery.js", "api.js", "docs.js", "style.css"):
        file = httpx.get(f"{server.url}/page/{name}")
        assert file.status_code == 200
        assert "http://" not in file.text
        assert "https://" not in file.text
    assert httpx.get(f"{server.url}/page/app.py").status_code == 404


def test_what_the_machine_has(server: Server) -> None:
    devices = httpx.get(f"{server.url}/api/devices").json()
    assert [worker["device"] for worker in devices["workers"]] == ["cpu:0"]
    assert devices["memory"]["total_bytes"] > 0
    cards = httpx.get(f"{server.url}/api/cards").json()["cards"]
    assert {"digits", "shapes"} <= {card["name"] for card in cards if card.get("weights") == "here"}
    assert httpx.get(f"{server.url}/api/tasks").json()["tasks"]
    captures = httpx.get(f"{server.url}/api/captures").json()["captures"]
    assert ("cpu:0", "digits") in {(each["device"], each["card"]) for each in captures}
    assert httpx.get(f"{server.url}/readyz").json() == {"status": "ready"}


@pytest.mark.parametrize("sent", ["cancel", "delete"])
def test_a_job_that_runs_stops_at_its_next_step(server: Server, sent: str) -> None:
    long = {"card": "shapes", "prompt": "a red circle moving left", "steps": 900, "seed": 1}
    job = httpx.post(f"{server.url}/api/jobs", json={"generation": long}).json()["id"]
    with httpx.stream("GET", f"{server.url}/api/jobs/{job}/events", timeout=120) as answer:
        for line in answer.iter_lines():
            if '"kind": "progress"' in line and '"done": 2' in line:
                break
    path = f"{server.url}/api/jobs/{job}"
    _ = httpx.post(f"{path}/cancel") if sent == "cancel" else httpx.delete(path)
    assert ended(server, job)["state"] == "cancelled"
