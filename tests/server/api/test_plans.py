"""Validation and plans over REST are those of the command line; trust is a request's."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from restrike.cli.app import run
from restrike.server.security.trust import UNTRUSTED
from restrike.server.service import Service

FLOW = {"seed": 3, "steps": {"a": {"generate": "digits", "arguments": {"prompt": "seven", "steps": 2}}}}


def planned(client: TestClient, flow: dict[str, Any], **more: Any) -> Any:
    answer = client.post("/api/plan", json={"workflow": flow, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_fingerprint_names_the_work(client: TestClient) -> None:
    first = planned(client, FLOW)["fingerprint"]
    longer = {**FLOW, "steps": {**FLOW["steps"], "b": FLOW["steps"]["a"] | {"seed": 8}}}
    edited = {**FLOW, "steps": {"a": {"generate": "digits", "arguments": {"prompt": "two", "steps": 2}}}}
    assert planned(client, FLOW)["fingerprint"] == first
    assert planned(client, FLOW, seed=77)["fingerprint"] == first
    assert planned(client, longer)["fingerprint"] != first
    assert planned(client, edited)["fingerprint"] != first


def test_the_command_line_says_the_same(
    client: TestClient, service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "flow.json"
    file.write_text(json.dumps(FLOW))
    workspace = str(service.place.workspace("default"))
    for verb in ("plan", "validate"):
        device = ["--device", "cpu"] if verb == "plan" else []
        assert run([verb, str(file), "--workspace", workspace, "--json", *device]) == 0
        told = client.post(f"/api/{verb}", json={"workflow": {**FLOW, "name": "flow"}}).json()
        assert told == json.loads(capsys.readouterr().out)


def test_validate_writes_and_loads_nothing(client: TestClient, service: Service) -> None:
    before = sorted(path for path in service.place.folder.rglob("*") if ".sqlite" not in path.name)
    answer = client.post("/api/validate", json={"text": "steps: {a: {task: no.such}, b: {generate: nope}}"})
    assert [each["path"] for each in answer.json()["findings"]] == ["steps.a.task", "steps.b.generate"]
    after = sorted(path for path in service.place.folder.rglob("*") if ".sqlite" not in path.name)
    assert after == before
    assert service.history.counts()["queued"] == 0


def test_a_folder_of_the_server_is_barred_the_same_whether_it_exists(
    client: TestClient, tmp_path: Path
) -> None:
    def flow(kind: str, path: str) -> dict[str, Any]:
        steps = {
            "generate": {"generate": path, "arguments": {"prompt": "x"}},
            "variable": {"generate": "$var.card", "arguments": {"prompt": "x"}},
            "checkpoint": {"pipeline": {"checkpoint": path}},
            "lora": {"pipeline": {"checkpoint": path, "loras": [{"path": path}]}},
            "adapter": {"generate": "digits", "arguments": {"prompt": "seven", "adapters": [path]}},
        }
        return {"variables": {"card": path}, "steps": {"a": steps[kind]}}

    for kind in ("generate", "checkpoint", "lora", "adapter", "variable"):
        here, nowhere = flow(kind, str(tmp_path)), flow(kind, str(tmp_path / "no"))
        there = client.post("/api/validate", json={"workflow": here}).json()
        absent = client.post("/api/validate", json={"workflow": nowhere}).json()
        assert there == absent
        assert any(each["message"] == UNTRUSTED for each in there["findings"])
        # Control: a request that is trusted is told what is there.
        told = client.post("/api/validate", json={"workflow": here, "trusted": True}).json()
        assert told["findings"]
        assert all(each["message"] != UNTRUSTED for each in told["findings"])


def test_a_mistyped_card_is_told_the_nearest_and_no_folder_is_looked_for(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(card: str) -> str:
        work = {"generation": {"card": card, "prompt": "a seven"}}
        (finding,) = client.post("/api/validate", json=work).json()["findings"]
        assert finding["path"] == "card"
        return finding["message"]

    assert told("digit").startswith("no card 'digit'; did you mean 'digits'? (there is digits, ")
    absent = told("mine"), told("./mine"), told("~/mine"), told("..")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    assert (told("mine"), told("./mine"), told("~/mine"), told("..")) == absent
    assert absent[1:] == (UNTRUSTED,) * 3


def test_code_that_was_not_allowed_is_never_imported(
    client: TestClient, service: Service, tmp_path: Path
) -> None:
    code = tmp_path / "mine.py"
    code.write_text("raise RuntimeError('imported')\n")
    flow = {"steps": {"a": {"task": "mine.blend", "arguments": {"path": str(code)}}}}
    before = set(sys.modules)
    found = client.post("/api/validate", json={"workflow": flow}).json()
    assert "unknown task" in found["findings"][0]["message"]
    assert not [name for name in set(sys.modules) - before if name.startswith("restrike_allowed")]
    # Control: the operator of a server allows files, and then it is imported.
    allowing = replace(service, planning=replace(service.planning, allow_code=(code,)))
    with pytest.raises(Exception, match="imported"):
        allowing.session("default", trusted=False)


def test_yaml_bombs_are_refused(client: TestClient) -> None:
    names = list(zip("abcdefgh", "bcdefghi", strict=True))
    texts = (
        "a: &a [x, x]\n" + "\n".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in names),
        "steps: " + "[" * 20_000,
        "steps:\n" + "".join(f"  s{n}: {{task: text.join}}\n" for n in range(30_000)),
    )
    for text in texts:
        answer = client.post("/api/validate", json={"text": text})
        assert answer.status_code in (200, 413, 422)
        assert answer.status_code != 200 or not answer.json()["valid"]
