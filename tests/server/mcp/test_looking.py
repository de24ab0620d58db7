"""Tools that look: small answers, pages that join without a gap, and no path of the server in any of them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from server.mcp.agent import Agent
from serving import Server

SMALL_BYTES = 8 << 10


def pages(agent: Agent, kind: str, **asked: Any) -> list[str]:
    found: list[str] = []
    after = None
    while True:
        page = agent.call("find", kind=kind, after=after, **asked).tree
        found += [entry.get("name") or entry["job"] for entry in page[kind]]
        if "next" not in page:
            return found
        after = page["next"]


def test_pages_join_without_a_gap(agent: Agent) -> None:
    tasks = pages(agent, "tasks", limit=7)
    assert tasks == sorted(set(tasks))
    assert tasks == pages(agent, "tasks", limit=50)
    assert len(tasks) > 20
    made = [agent.made(seed=seed) for seed in (81, 82, 83)]
    jobs = pages(agent, "jobs", limit=2)
    assert len(jobs) == len(set(jobs))
    assert [job for job in jobs if job in made] == made[::-1]


def test_words_narrow_a_search(agent: Agent) -> None:
    cards = agent.call("find", kind="cards", text="handwritten DIGITS").tree["cards"]
    assert [card["name"] for card in cards] == ["digits"]
    assert agent.call("find", kind="cards", text="no such thing").tree["cards"] == []


def test_one_of_each_can_be_read(agent: Agent) -> None:
    job = agent.made(seed=84)
    shown = agent.call("read", kind="job", name=job).tree
    assert (shown["state"], shown["seed"], shown["device"]) == ("succeeded", 84, "cpu:0")
    assert shown["why"]
    run = agent.call("read", kind="run", name=shown["run"]).tree
    assert '"digits"' in run["text"]
    assert agent.call("read", kind="card", name="digits").tree["sizes"]["width"] == "8"
    task = agent.call("read", kind="task", name="picture.resize").tree
    assert "width" in task["arguments"]


def test_a_long_workflow_is_read_in_pages(agent: Agent) -> None:
    step = {"generate": "digits", "arguments": {"prompt": "a one" + " please" * 40}}
    agent.call("edit", workflow="long", patch={"steps": {f"s{n}": step for n in range(40)}}, on=0)
    text, offset = "", 0
    while offset is not None:
        page = agent.call("read", kind="workflow", name="long", offset=offset)
        assert page.size_bytes < 2 * SMALL_BYTES
        text, offset = text + page.tree["text"], page.tree.get("next")
    assert text.count('"generate"') == 40


def test_a_large_plan_is_told_in_brief(agent: Agent) -> None:
    answer = agent.call("plan", work={"workflow": "long"})
    assert answer.size_bytes < SMALL_BYTES
    assert answer.tree["to_run"] == 40
    assert answer.tree["more_steps"] == 20


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc", "./", "~", "\\\\host\\share"])
def test_a_folder_is_refused_the_same_whether_or_not_it_exists(agent: Agent, name: str) -> None:
    refused = agent.call("read", kind="card", name=name)
    assert refused.failed
    assert "passwd:" not in refused.text
    for kind in ("workflow", "run", "task"):
        assert agent.call("read", kind=kind, name=name).failed


def test_no_answer_names_a_folder_of_the_server(agent: Agent, server: Server) -> None:
    job = agent.made(seed=85)
    answers = [agent.call("find", kind=kind) for kind in ("cards", "workflows", "tasks", "runs", "jobs")]
    answers += [agent.call(tool, job=job) for tool in ("wait", "results", "explain")]
    bad = {"generation": {"card": str(server.data), "prompt": "x"}}
    asset = {"generation": {"card": "digits", "prompt": "x", "image": "$asset.none.png"}}
    answers += [agent.call(tool, work=work) for tool in ("validate", "plan", "run") for work in (bad, asset)]
    answers.append(agent.call("read", kind="run", name="nothing/1"))
    answers.append(agent.call("find", kind="runs", workspace="nowhere"))
    for answer in answers:
        text = answer.result.model_dump_json().replace(str(bad["generation"]["card"]), "")
        assert str(server.data.parent) not in text
        assert not re.search(r"/(home|root|usr|opt|tmp)/", text), text
