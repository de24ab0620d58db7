"""Tools that work: what spends needs its plan acknowledged, waiting changes nothing, no edit is lost."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from server.mcp.agent import Agent
from serving import Server, until

LONG: dict[str, Any] = {"steps": 1000, "n": 10}
DIGIT = {"seed": 3, "steps": {"made": {"generate": "digits", "arguments": {"prompt": "seven"}}}}


def test_running_is_refused_until_the_plan_was_read(agent: Agent) -> None:
    work = {"generation": {"card": "digits", "prompt": "a one", "seed": 1}}
    refused = agent.call("run", work=work)
    assert refused.failed
    assert refused.tree["class"] == "refused"
    assert refused.tree["plan"]["to_run"] == 1
    resend = refused.tree["resend"]
    assert resend["acknowledge"] == agent.call("plan", work=work).tree["fingerprint"]
    assert not agent.call("run", work=work, **resend).failed


def test_a_stale_fingerprint_is_answered_with_the_new_plan(agent: Agent) -> None:
    work = {"generation": {"card": "digits", "prompt": "a one", "seed": 61}}
    old = agent.call("plan", work=work).tree["fingerprint"]
    longer = {"generation": {**work["generation"], "n": 4}}
    refused = agent.call("run", work=longer, acknowledge=old)
    assert refused.failed
    assert refused.tree["class"] == "conflict"
    assert not agent.call("run", work=longer, **refused.tree["resend"]).failed


def test_a_retry_under_a_client_id_is_the_same_job(agent: Agent) -> None:
    work = {"generation": {"card": "digits", "prompt": "a one", "seed": 62}}
    fingerprint = agent.call("plan", work=work).tree["fingerprint"]
    jobs = {agent.call("run", work=work, acknowledge=fingerprint, client_id="r").tree["job"] for _ in "ab"}
    assert len(jobs) == 1


def test_all_faults_are_told_at_once_with_their_places(agent: Agent) -> None:
    faults = agent.call(
        "validate", work={"generation": {"card": "digits", "prompt": "a cat", "width": 9, "steps": 0}}
    )
    assert not faults.tree["valid"]
    assert [each["path"] for each in faults.tree["findings"]] == ["prompt", "width", "steps"]
    assert agent.call("validate", work={"generation": {"card": "digits", "prompt": "a 1"}}).tree["valid"]


@pytest.mark.parametrize(
    ("tool", "given", "said"),
    [
        ("find", {}, "kind: it is missing; give it"),
        (
            "find",
            {"kind": "card"},
            "kind: 'card' is not one of cards, workflows, tasks, runs, jobs; did you mean",
        ),
        ("find", {"kind": "cards", "limt": 3}, "limt: no argument 'limt'; did you mean 'limit'?"),
        ("wait", {"job": "job-none", "seconds": 500}, "seconds: 500 is not at most 50"),
        ("wait", {}, "job: it is missing; give it"),
        (
            "plan",
            {"work": {"generation": {"card": "digits"}}},
            "work.generation.prompt: it is missing; give it",
        ),
        ("nope", {}, "unknown tool 'nope'. Known: cancel, edit, explain, find, plan, read, results, run, "),
    ],
)
def test_what_keeps_a_tool_from_being_called_is_a_problem_too(
    agent: Agent, tool: str, given: dict[str, Any], said: str
) -> None:
    refused = agent.call(tool, **given)
    assert refused.failed
    assert refused.tree["detail"].startswith(said)
    assert refused.tree["class"] == ("not-found" if tool == "nope" else "refused")
    assert "pydantic" not in refused.text


def test_waiting_is_bounded_and_changes_nothing(agent: Agent) -> None:
    job = agent.begun(**LONG, seed=63)
    try:
        until(lambda: "progress" in agent.call("wait", job=job, seconds=0.2).tree)
        began_s = time.monotonic()
        first = agent.call("wait", job=job, seconds=0.5).tree
        later = agent.call("wait", job=job, seconds=0.5, after=first["after"]).tree
        assert time.monotonic() - began_s < 30
        assert [first["state"], later["state"]] == ["running", "running"]
        assert not [each for each in later["news"] if each["kind"] == "state"]
        assert later["after"] >= first["after"]
    finally:
        stopping = agent.call("cancel", job=job).tree
    assert next(iter(stopping)) == "job"
    assert agent.call("wait", job=job, seconds=50).tree["state"] == "cancelled"
    assert agent.call("cancel", job=job).tree["state"] == "cancelled"


def test_an_unknown_job_is_unknown_to_every_tool(agent: Agent) -> None:
    for tool in ("wait", "cancel", "results", "explain"):
        refused = agent.call(tool, job="job-none")
        assert (refused.failed, refused.tree["class"]) == (True, "not-found")


def test_an_edit_is_a_merge_and_says_what_it_is_made_on(agent: Agent) -> None:
    assert agent.call("edit", workflow="agent_a", patch=DIGIT, on=0).tree == {
        "workflow": "agent_a",
        "revision": 1,
    }
    assert agent.call("edit", workflow="agent_a", patch=DIGIT, on=0).tree["class"] == "conflict"
    changed = {"steps": {"made": {"arguments": {"prompt": "two"}}}}
    assert agent.call("edit", workflow="agent_a", patch=changed, on=1).tree["revision"] == 2
    assert agent.call("edit", workflow="agent_a", patch=changed, on=1).tree["class"] == "conflict"
    text = agent.call("read", kind="workflow", name="agent_a").tree["text"]
    assert '"two"' in text
    assert '"digits"' in text
    assert agent.call("plan", work={"workflow": "agent_a"}).tree["workflow"] == "agent_a"
    refused = agent.call("edit", workflow="agent_a", patch={"steps": None}).tree
    assert refused["class"] == "refused"


def test_concurrent_patches_lose_nothing(agent: Agent) -> None:
    agent.call("edit", workflow="agent_b", patch=DIGIT, on=0)
    names = [f"step{number}" for number in range(6)]

    def add(name: str) -> bool:
        step = {"generate": "digits", "arguments": {"prompt": "one"}}
        return agent.call("edit", workflow="agent_b", patch={"steps": {name: step}}).failed

    with ThreadPoolExecutor(6) as pool:
        assert not any(pool.map(add, names))
    read = agent.call("read", kind="workflow", name="agent_b").tree
    assert read["revision"] == 7
    assert all(f'"{name}"' in read["text"] for name in names)


@pytest.mark.parametrize("name", ["../escape", "/etc/passwd", "a/b", ""])
def test_a_name_that_is_no_name_is_refused(agent: Agent, server: Server, name: str) -> None:
    refused = agent.call("edit", workflow=name, patch=DIGIT, on=0)
    assert (refused.failed, refused.tree["class"]) == (True, "refused")
    assert not list(server.data.parent.rglob("escape*"))
