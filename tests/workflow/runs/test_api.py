"""The Python front door of workflows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import restrike
from restrike import settings
from restrike.workflow.findings import InvalidWorkflow

from .lab import steps


@pytest.fixture
def workflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A workflow file, in a workspace that the settings name."""
    monkeypatch.setenv("RESTRIKE_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("RESTRIKE_WORKSPACE", str(tmp_path / "workspace"))
    settings.settings.cache_clear()
    path = tmp_path / "greet.json"
    greeting = {"task": "text.template", "arguments": {"template": "{x}!", "values": {"x": "$var.word"}}}
    path.write_text(json.dumps({**steps(greeting=greeting), "variables": {"word": "hello"}}))
    yield path
    settings.settings.cache_clear()


def test_a_file_is_planned_and_run_with_values(workflow: Path) -> None:
    assert [row.status for row in restrike.plan(workflow, word="bye").rows] == ["will run"]
    done = restrike.run(workflow, word="bye")
    (file,) = done.files
    assert file.read_text() == "bye!\n"
    assert file.parent == done.folder
    assert [row.status for row in restrike.plan(str(workflow), word="bye").rows] == ["reused"]
    assert restrike.run(workflow, word="bye").manifest.steps[0].status == "reused"


def test_what_is_wrong_is_told_at_once(workflow: Path) -> None:
    with pytest.raises(InvalidWorkflow, match="wrod"):
        restrike.run(workflow, wrod="bye")


def test_a_session_is_opened_elsewhere(workflow: Path, tmp_path: Path) -> None:
    from restrike.workflow.source import read_file

    session = restrike.open_session(tmp_path / "other", store=tmp_path / "other-store")
    source = read_file(workflow)
    manifest = session.run(source, restrike.Asked(values={"word": "hi"}))
    assert (tmp_path / "other" / manifest.run / "greeting.txt").read_text() == "hi!\n"
    again = session.run(source, restrike.Asked(values={"word": "hi"}, rerun=("greeting",)))
    assert again.steps[0].status == "computed"
    assert not (tmp_path / "store").exists()
