"""`restrike validate` and `restrike schema`: all findings in one answer, nothing run, nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.conftest import Restrike

GOOD = """
variables: {prompt: a seven, steps: {default: 8, maximum: 20}}
steps:
  a: {generate: digits, arguments: {prompt: $var.prompt, steps: $var.steps}}
  b: {generate: digits, arguments: {prompt: $prompt.stored}, result: {save: false}}
"""
TASKS = """
from restrike.workflow.tasks.registry import task

@task("mine.shout", epoch="1")
def shout(text: str) -> str:
    return text.upper()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "stored.txt").write_text("a one")
    path = tmp_path / "first.yaml"
    path.write_text(GOOD)
    return path


def test_a_workflow_without_findings_is_said_to_be_right(
    restrike: Restrike, file: Path, tmp_path: Path
) -> None:
    before = sorted(tmp_path.rglob("*"))
    done = restrike("validate", file)
    assert done.code == 0
    assert done.out.splitlines() == [
        "first: nothing wrong; 1 step would run",
        "note: 'b' does not run: nothing reads it, and it saves nothing",
    ]
    assert sorted(tmp_path.rglob("*")) == before


def test_every_finding_has_a_line_with_its_place(restrike: Restrike, file: Path) -> None:
    file.write_text(GOOD.replace("arguments", "argument").replace("a:", "a a:"))
    done = restrike("validate", file, "-v", "steps=many", "-v", "what=1")
    assert done.code == 2
    assert [line.partition(": ")[0] for line in done.out.splitlines()] == [
        'steps["a a"]',
        'steps["a a"].argument',
        "steps.b.argument",
        "variables.what",
        "variables.steps",
        "steps.b.arguments",
    ]


def test_the_same_as_one_object(restrike: Restrike, file: Path) -> None:
    found = restrike("validate", file, "--json").json
    assert found["valid"] is True
    assert found["steps"] == [{"id": "a", "runs": "generate digits"}]
    assert found["elided"] == ["b"]
    done = restrike("validate", file, "--json", "-v", "steps=21")
    assert done.code == 2
    assert done.json == {
        "valid": False,
        "findings": [{"path": "variables.steps", "message": "21 is above the maximum 20"}],
    }


def test_the_workspace_is_where_files_are_looked_for(restrike: Restrike, file: Path, tmp_path: Path) -> None:
    done = restrike("validate", file, "--workspace", tmp_path / "gone")
    assert "no stored prompt 'stored'" in done.out
    assert restrike("validate", file, "--workspace", file).code == 2


def test_tasks_of_a_file_are_known_only_when_it_is_allowed(
    restrike: Restrike, file: Path, tmp_path: Path
) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    file.write_text("steps: {a: {task: mine.shout, arguments: {text: x}}}")
    assert "unknown task 'mine.shout'" in restrike("validate", file).out
    assert restrike("validate", file, "--allow-code", tmp_path / "tasks.py").code == 0


@pytest.mark.parametrize(
    ("values", "message"),
    [(("-v", "steps"), "is not NAME=VALUE"), (("-v", "steps=1", "-v", "steps=2"), "is given twice")],
)
def test_values_that_cannot_be_read_are_refused(
    restrike: Restrike, file: Path, values: tuple[str, ...], message: str
) -> None:
    done = restrike("validate", file, *values)
    assert done.code == 2
    assert message in done.err
    assert not done.out


def test_a_file_that_is_not_there_is_refused(restrike: Restrike) -> None:
    done = restrike("validate", "gone.yaml")
    assert done.code == 2
    assert "no workflow file at 'gone.yaml'" in done.err


def test_a_value_may_hold_an_equals_sign(restrike: Restrike, file: Path) -> None:
    assert restrike("validate", file, "-v", "prompt=a=six").code == 0


def test_the_schema_is_one_object(restrike: Restrike) -> None:
    found = restrike("schema").json
    assert found["title"] == "Restrike workflow"
    assert set(found["properties"]) >= {"name", "seed", "variables", "steps", "reuse"}
