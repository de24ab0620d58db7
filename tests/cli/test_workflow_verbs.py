"""Plan, run, explain, runs and store: what each prints, and how each ends."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from restrike import settings

from .conftest import Restrike

FLOW = """
seed: 7
variables: {word: hello, size: {default: 16, minimum: 8}}
steps:
  base: {generate: digits, arguments: {prompt: a seven, steps: 2}}
  big: {task: picture.resize, arguments: {clip: $step.base, width: $var.size, height: $var.size}}
  said: {task: text.template, arguments: {template: "{x}!", values: {x: $var.word}}}
"""


@pytest.fixture(autouse=True)
def flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A workflow in the current folder, which is the workspace, and a store beside it."""
    monkeypatch.setenv("RESTRIKE_STORE", str(tmp_path / "store"))
    settings.settings.cache_clear()
    path = tmp_path / "flow.yaml"
    path.write_text(FLOW)
    yield path
    settings.settings.cache_clear()


def test_a_run_prints_its_files_and_a_plan_what_it_would_do(restrike: Restrike) -> None:
    planned = restrike("plan", "flow.yaml")
    assert planned.code == 0
    assert "0 reused, 3 to run" in planned.out
    first = restrike("run", "flow.yaml")
    assert first.code == 0
    assert sorted(first.out.split()) == ["flow/0001/big.png", "flow/0001/said.txt"]
    assert all(Path(line).exists() for line in first.out.split())
    assert "base  computed in" in first.err
    assert "3 reused, 0 to run" in restrike("plan", "flow.yaml").out
    assert "2 reused, 1 to run" in restrike("plan", "flow.yaml", "-v", "word=bye").out
    second = restrike("run", "flow.yaml", "-v", "word=bye", "--json")
    assert {step["action"] for step in second.json["steps"] if step["status"] == "computed"} == {"said"}
    assert second.json["variables"]["word"] == "bye"


def test_a_plan_promises_no_time_of_what_never_ran_here(restrike: Restrike) -> None:
    first = restrike("plan", "flow.yaml").out
    assert "3 to run, how long is not known yet" in first
    assert "about" not in first
    restrike("run", "flow.yaml")
    assert "3 reused, 0 to run, about 0.0 s" in restrike("plan", "flow.yaml").out
    known = restrike("plan", "flow.yaml", "-v", "word=bye").out
    assert re.search(r"2 reused, 1 to run, about [0-9.]+ s\n", known)
    Path("flow.yaml").write_text(FLOW + "  more: {generate: digits, arguments: {prompt: a one, steps: 9}}\n")
    mixed = restrike("plan", "flow.yaml", "-v", "word=bye").out
    assert re.search(r"2 to run, about [0-9.]+ s and what never ran here", mixed)


def test_a_plan_as_json(restrike: Restrike) -> None:
    restrike("run", "flow.yaml")
    found = restrike("plan", "flow.yaml", "-v", "size=20", "--json").json
    statuses = {row["action"]: (row["status"], row["unless"], row["origin"]) for row in found["rows"]}
    assert statuses == {
        "base": ("reused", [], "flow/0001"),
        "big": ("will run", [], ""),
        "said": ("reused", [], "flow/0001"),
    }
    assert found["seconds"] > 0
    assert found["download_bytes"] == 0
    assert len(found["fingerprint"]) == 64


def test_explain_names_what_differed(restrike: Restrike) -> None:
    restrike("run", "flow.yaml")
    restrike("run", "flow.yaml", "-v", "word=bye")
    said = restrike("explain", "flow/latest")
    assert said.code == 0
    assert "reused, first computed by flow/0001" in said.out
    assert "nearest earlier result differs in arguments.values.x" in said.out
    assert "arguments.values.x: 'hello' -> 'bye'" in said.out
    (step,) = (s for s in restrike("explain", "flow/2", "--json").json["steps"] if s["action"] == "said")
    assert step["differences"] == [{"path": "arguments.values.x", "before": "'hello'", "after": "'bye'"}]
    assert "operation" in step["key_parts"]
    assert restrike("explain", "flow/9").code == 2


def test_runs_are_listed_run_again_resumed_and_deleted(restrike: Restrike) -> None:
    assert restrike("runs", "list").err.strip() == "no runs yet"
    restrike("run", "flow.yaml")
    again = restrike("runs", "rerun", "flow/1", "--seed", "random", "--json").json
    assert again["run"] == "flow/0002"
    assert again["seed"] != 7
    assert restrike("runs", "rerun", "flow/1", "--json").json["seed"] == 7
    assert restrike("runs", "rerun", "flow/1", "--seed", "-1").code == 2
    assert "flow/0003/big.png" in restrike("runs", "resume", "flow/3").out.splitlines()
    listed = restrike("runs", "list", "--json").json["runs"]
    assert [run["run"] for run in listed] == ["flow/0001", "flow/0002", "flow/0003"]
    assert [run["reused"] for run in listed] == [0, 1, 3]
    assert restrike("runs", "delete", "flow/2").out == "deleted flow/0002\n"
    assert restrike("runs", "delete", "../flow").code == 2
    assert "flow/0002" not in restrike("runs", "list").out


def test_no_reuse_rerun_and_audit(restrike: Restrike) -> None:
    restrike("run", "flow.yaml")
    forced = restrike("run", "flow.yaml", "--rerun", "said", "--json").json
    assert {step["action"] for step in forced["steps"] if step["status"] == "computed"} == {"said"}
    none = restrike("run", "flow.yaml", "--no-reuse", "--json").json
    assert {step["status"] for step in none["steps"]} == {"computed"}
    audited = restrike("run", "flow.yaml", "--audit")
    assert audited.code == 0
    assert audited.err.count("the same bytes") == 3
    assert restrike("run", "flow.yaml", "--rerun", "sayd").code == 2


def test_an_audit_that_finds_other_bytes_fails(restrike: Restrike, tmp_path: Path) -> None:
    tasks = tmp_path / "mine.py"
    tasks.write_text(
        "import time\nfrom restrike.workflow.tasks.registry import task\n\n"
        '@task("mine.now", epoch="1")\ndef now() -> float:\n    return time.time()\n'
    )
    (tmp_path / "now.yaml").write_text("seed: 1\nsteps: {a: {task: mine.now}}\n")
    code = ("--allow-code", tasks)
    assert restrike("run", "now.yaml", *code).code == 0
    audited = restrike("run", "now.yaml", *code, "--audit")
    assert audited.code == 1
    assert "a gave other bytes" in audited.err
    assert restrike("run", "now.yaml").code == 2


def test_a_failed_step_ends_the_run_in_one_line(restrike: Restrike, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(
        "seed: 1\nsteps:\n  a: {task: text.template, arguments: {template: '{x} {y}', values: {x: 1}}}\n"
    )
    failed = restrike("run", "bad.yaml")
    assert failed.code != 0
    assert failed.err.strip().splitlines()[-1].startswith("restrike: ")
    (run,) = restrike("runs", "list", "--json").json["runs"]
    assert run["status"] == "failed"
    assert run["error"].startswith("a: ")


def test_the_store_is_shown_checked_pinned_and_emptied(restrike: Restrike, tmp_path: Path) -> None:
    restrike("run", "flow.yaml")
    stats = restrike("store", "stats", "--json").json
    assert stats["entries"] == 5  # three values, two files
    assert stats["by_label"]["generate digits"] == 1
    key = json.loads((tmp_path / "flow" / "0001" / "manifest.json").read_text())["steps"][0]["key"]
    assert "generate digits" in restrike("store", "explain", key[:12]).out
    assert restrike("store", "explain", key[:12], "--json").json["key"] == key
    assert "stays" in restrike("store", "pin", key[:12]).out
    assert restrike("store", "gc", "--limit", "0", "--json").json["evicted"] == 4
    assert restrike("store", "stats", "--json").json["entries"] == 1
    assert "may go" in restrike("store", "pin", key[:12], "--off").out
    assert restrike("store", "verify").code == 0
    for blob in (tmp_path / "store" / "blobs").glob("??/*"):
        blob.write_bytes(b"spoiled")
    damaged = restrike("store", "verify")
    assert damaged.code == 2
    assert "generate digits" in damaged.err
    assert restrike("store", "explain", "00zz").code == 2
