"""submit, jobs, wait, cancel and logs against a real server: what they print, refuse and exit with."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli.conftest import Restrike
from restrike.media import provenance_of
from serving import Server

FLOW = """
name: digit
variables:
  steps: {type: integer, default: 3}
steps:
  made:
    generate: digits
    arguments: {prompt: a three, steps: $var.steps}
    seed: 5
"""
_PROBE = """
import contextlib, io, json, sys
from restrike.cli.app import run
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    run({arguments!r})
print(json.dumps([name for name in ("torch", "fastapi", "uvicorn", "starlette") if name in sys.modules]))
"""


@pytest.fixture
def told(restrike: Restrike, server: Server, monkeypatch: pytest.MonkeyPatch) -> Restrike:
    """The command, with the server as its environment names it."""
    from restrike import settings as module

    monkeypatch.setenv("RESTRIKE_SERVER", server.url)
    module.settings.cache_clear()
    yield restrike
    module.settings.cache_clear()


@pytest.mark.parametrize("verb", ["submit", "wait"])
def test_a_file_in_place_of_a_folder_is_refused_before_anything_is_asked(
    restrike: Restrike, verb: str
) -> None:
    done = restrike(verb, "a seven", "-o", "seven.png", "--server", "http://127.0.0.1:9")
    assert done.code == 2
    assert "-o seven.png: a job's files go into a folder" in done.err
    assert "--kind png" in done.err


def test_a_prompt_becomes_a_file_here(told: Restrike, tmp_path: Path) -> None:
    done = told(
        "submit", "a seven", "--card", "digits", "--seed", 7, "--steps", 4, "--kind", "png", "-o", "out"
    )
    assert done.code == 0, done.err
    (path,) = (tmp_path / "out").iterdir()
    assert done.out == f"out/{path.name}\n"
    assert "computed in" in done.err
    made = provenance_of(path)
    assert made is not None
    assert (made.card, made.seed, made.arguments["steps"]) == ("digits", 7, 4)


def test_one_picture_of_a_batch_has_the_bytes_that_generate_gives_it(told: Restrike, tmp_path: Path) -> None:
    asked = ("a four", "--card", "digits", "--seed", 7, "--steps", 3)
    assert told("submit", *asked, "--kind", "png", "--item", 2, "--exact", "-o", "out").code == 0
    assert told("generate", *asked, "--device", "cpu", "--native", "-n", 3, "-o", "here.png").code == 0
    (path,) = (tmp_path / "out").iterdir()
    assert path.read_bytes() == (tmp_path / "here-2.png").read_bytes()
    # Control: it is no other picture of the batch.
    assert path.read_bytes() != (tmp_path / "here-0.png").read_bytes()
    assert told("submit", "--from", path, "--kind", "png", "-o", "again").code == 0
    (again,) = (tmp_path / "again").iterdir()
    assert again.read_bytes() == path.read_bytes()


def test_a_job_is_submitted_waited_for_and_looked_at(told: Restrike) -> None:
    name = told("submit", "a two", "--card", "digits", "-n", 2, "--size", "8x8").out.strip()
    waited = told("wait", name, "--json").json
    assert waited["state"] == "succeeded"
    assert len(waited["files"]) == 2
    assert told("jobs", name, "--json").json["id"] == name
    assert name in [job["id"] for job in told("jobs", "--state", "succeeded", "--json").json["jobs"]]
    shown = told("jobs").out
    assert name in shown
    assert "succeeded" in shown
    assert "a two" in shown
    one = told("jobs", name).out
    assert "cpu:0" in one
    assert "computed in" in one
    line = "answered 0 of"
    assert line in one
    explained = told("explain", name)
    assert line in explained.out
    assert "computed: " in explained.out
    (step,) = told("explain", name, "--json").json["steps"]
    assert line in step["how"][0]
    assert told("explain", "job-0123456789abcdef").code == 2
    assert told("cancel", name).out == f"{name} had already ended (succeeded); nothing was cancelled\n"
    lines = told("logs", name).out.splitlines()
    assert lines[0].endswith("state       state=queued")
    assert lines[-1].endswith("state       state=succeeded")
    events = told("logs", name, "-f", "--json").json["events"]
    assert len(events) == len(lines)


def test_a_workflow_takes_values_of_its_types(told: Restrike, tmp_path: Path) -> None:
    (tmp_path / "digit.yaml").write_text(FLOW)
    done = told("submit", "digit.yaml", "-v", "steps=2", "--wait", "--json", "--client-id", "flow")
    assert done.code == 0, done.err
    assert done.json["label"] == "digit"
    assert told("submit", "digit.yaml", "-v", "steps=2", "--client-id", "flow").out.strip() == done.json["id"]
    again = told("submit", "digit.yaml", "-v", "steps=2", "--wait", "--json").json
    assert again["record"]["reused"] == ["made"]
    fresh = told("submit", "digit.yaml", "-v", "steps=2", "--wait", "--json", "--rerun", "made").json
    assert fresh["record"]["computed"] == ["made"]


def test_a_stale_plan_is_a_conflict(told: Restrike, tmp_path: Path) -> None:
    (tmp_path / "digit.yaml").write_text(FLOW)
    done = told("submit", "digit.yaml", "--accept-plan", "0" * 64, "--json")
    assert (done.code, done.json["error"]["type"]) == (2, "PlanChanged")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("digit.yaml", "--steps", 3), "--steps is for a prompt"),
        (("digit.yaml", "-v", "steps=two"), "steps"),
        (("digit.yaml", "--kind", "png"), "--kind is for a prompt"),
        (("gone.yaml",), "gone.yaml"),
        (("a", "two"), "put the prompt in quotes"),
        (("a two", "-v", "steps=2"), "-v is for a workflow"),
        (("a two", "--rerun", "made"), "--rerun is for a workflow"),
        (("a two", "--card", "digits", "--item", -1), "items"),
        (("a two", "--card", "digit"), "card: no card 'digit'; did you mean 'digits'? (there is"),
        (("a two", "--card", "./digit"), "card: a request names models by"),
        (("a two", "--card", "digit", "--trusted"), "did you mean 'digits'"),
        (("a two", "--card", "digits", "--max-download", "much"), "--max-download=much"),
        (("a two", "--card", "digits", "--steps", 0), "steps"),
        (("a two", "--card", "digits", "--workspace", "nowhere"), "no workspace 'nowhere'"),
        (("a two", "--server", "127.0.0.1"), "no address of a server"),
    ],
)
def test_what_means_nothing_is_refused(
    told: Restrike, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "digit.yaml").write_text(FLOW)
    done = told("submit", *arguments)
    assert done.code == 2, done
    assert message in done.err
    assert done.out == ""


def test_no_server_and_no_job_are_not_found(told: Restrike) -> None:
    done = told("jobs", "--server", "http://127.0.0.1:9", "--json")
    assert (done.code, done.json["error"]["type"]) == (2, "Away")
    for verb in ("wait", "cancel", "logs", "jobs"):
        done = told(verb, "nothing")
        assert done.code == 2
        assert "no job 'nothing'" in done.err
    assert "unknown state 'done'" in told("jobs", "--state", "done").err


def test_a_queue_is_paused_sorted_drained_and_resumed(told: Restrike) -> None:
    assert told("queue", "--json").json == {"paused": False, "draining": False}
    seven = ("submit", "a seven", "--card", "digits", "--steps", 2)
    try:
        assert told("queue", "pause").out.splitlines() == [
            "paused: nothing new starts",
            "open: new jobs are accepted",
            "0 running, 0 waiting in workspace default",
        ]
        first, second, third = (told(*seven, "--seed", seed).out.strip() for seed in (1, 2, 3))
        assert told("move", third, "--before", second, "--json").json["position"] == 1
        assert (
            told("move", second, "--priority", 5).out
            == f"{second} has priority 5 and waits for no other jobs\n"
        )
        assert told("move", first, "--json").code == 2
        assert "the queue is paused" in told("jobs", first).out
        assert told("queue").out.splitlines()[2] == "0 running, 3 waiting in workspace default"
        assert told("queue", "drain", "--json").json == {"paused": True, "draining": True}
        assert "draining" in told(*seven).err
    finally:
        assert told("queue", "resume", "--json").json == {"paused": False, "draining": False}
    ended = [told("wait", name, "--json").json for name in (first, second, third)]
    assert sorted(ended, key=lambda job: job["started"]) == [ended[1], ended[0], ended[2]]
    assert told("queue").out.splitlines()[:2] == [
        "running: waiting jobs start",
        "open: new jobs are accepted",
    ]
    refused = told("queue", "stop").err
    assert "unknown wish 'stop'" in refused
    assert "`restrike cancel JOB` stops a job" in refused
    done = told("move", first, "--priority", 1)
    assert (done.code, "does not wait any more" in done.err) == (2, True)


def test_a_job_is_done_again_with_its_seed_or_another(told: Restrike, tmp_path: Path) -> None:
    first = told(
        "submit", "a one", "--card", "digits", "--seed", 9, "--steps", 2, "--kind", "png", "--wait", "--json"
    )
    name = first.json["id"]
    done = told("rerun", name, "-o", "again", "--json")
    assert done.json["record"]["reused"] == ["picture"]
    assert done.json["files"][0]["sha256"] == first.json["files"][0]["sha256"]
    told("rerun", name, "--seed", 10, "-o", "ten")
    told("rerun", name, "--new-seed", "-o", "new")
    seeds = [provenance_of(next((tmp_path / folder).iterdir())).seed for folder in ("again", "ten", "new")]  # type: ignore[union-attr]
    assert seeds[:2] == [9, 10]
    assert seeds[2] not in (9, 10)
    retried = [told("rerun", name, "--new-seed", "--client-id", "again-1").out for _ in range(2)]
    assert retried[0] == retried[1]
    told("wait", retried[0].strip())
    assert told("rerun", name, "--new-seed", "--seed", 3).code == 2
    assert "no job 'nothing'" in told("rerun", "nothing").err


def test_a_cancelled_job_ends_a_wait_as_cancelled(told: Restrike) -> None:
    name = told("submit", "a two", "--card", "digits", "--steps", 1000).out.strip()
    assert told("cancel", name).out in (f"{name} cancelled\n", f"{name} will stop at its next step\n")
    done = told("wait", name, "--json")
    assert done.code == 4
    found = json.loads(done.out)
    assert (found["error"]["type"], found["job"]["state"]) == ("Cancelled", "cancelled")
    assert "computed in" not in told("jobs", name).out


def test_what_idle_devices_hold_is_let_go(told: Restrike) -> None:
    told("submit", "a two", "--card", "digits", "--seed", 77, "--steps", 2, "--wait")
    while told("jobs", "--state", "running", "--json").json["jobs"]:
        time.sleep(0.05)
    done = told("memory", "clear", "cpu:0")
    assert done.code == 0, done.err
    assert re.fullmatch(r"cpu:0  \d+\.\d MB freed\n", done.out)
    # Control: nothing is left to free.
    assert told("memory", "clear").out == "cpu:0  0 bytes freed\n"
    assert told("memory", "clear", "--json").json == {
        "devices": [{"device": "cpu:0", "freed_bytes": 0, "refusal": None}]
    }
    assert "unknown device 'cuda:7'" in told("memory", "clear", "cuda:7").err


def test_a_device_that_is_busy_is_left_as_it_is(told: Restrike) -> None:
    name = told("submit", "a two", "--card", "digits", "--steps", 1000, "-n", 8).out.strip()
    try:
        while told("jobs", name, "--json").json["progress"] is None:
            time.sleep(0.05)
        left = told("memory", "clear")
        assert (left.code, name in left.out, "freed" in left.out) == (0, True, False)
        assert told("memory", "clear", "cpu:0").code == 2
    finally:
        told("cancel", name)
    told("wait", name)


def test_a_running_job_says_how_far_it_is(told: Restrike) -> None:
    name = told("submit", "a two", "--card", "digits", "--steps", 1000, "-n", 8).out.strip()
    try:
        while (progress := told("jobs", name, "--json").json["progress"]) is None:
            time.sleep(0.05)
        assert (progress["total"], progress["pictures"]) == (1000, 8)
        one = told("jobs", name).out
        assert re.search(r"running for +\d+\.\d s", one)
        assert re.search(r"picture, picture \d of 8, \d+ of 1000 steps", one)
        assert re.search(r"picture \d of 8", " ".join(told("jobs", "--state", "running").out.split()))
    finally:
        told("cancel", name)
    assert told("wait", name).code == 4
    one = told("jobs", name).out
    assert "steps" not in one
    assert "running for" not in one


@pytest.mark.parametrize(
    "arguments", [["jobs"], ["submit", "a two", "--card", "digits"], ["logs", "nothing"]]
)
def test_verbs_of_the_client_import_neither_torch_nor_the_server(
    server: Server, arguments: list[str]
) -> None:
    text = _PROBE.format(arguments=[*arguments, "--server", server.url])
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert json.loads(found.stdout) == []
