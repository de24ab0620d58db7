"""The workflows of the reference are whole and right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from restrike.workflow.definition import ResultSpec, VariableSpec
from restrike.workflow.source import read_text

from .samples import expanded, findings

PAGE = Path(__file__).parents[2] / "docs" / "workflows.md"
TEXT = PAGE.read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("text", EXAMPLES, ids=lambda text: text.split("\n")[1].strip())
def test_each_workflow_of_the_page_is_right(text: str, tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "cat.png").write_bytes(b"cat")
    values = {"picture": "$asset.cat.png"} if "picture:" in text else {}
    assert expanded(text, values, tmp_path).actions


def test_what_is_required_in_an_example_is() -> None:
    (text,) = (example for example in EXAMPLES if "picture:" in example)
    assert list(findings(text)) == ["variables.picture"]


def test_the_first_example_gathers_its_members_in_one_picture() -> None:
    graph = expanded(read_text(EXAMPLES[0]))
    assert [action.id for action in graph.actions if action.saves] == ["row"]
    assert len(graph.actions) == 7


@pytest.mark.parametrize("model", [VariableSpec, ResultSpec])
def test_every_key_is_on_the_page(model: type[VariableSpec | ResultSpec]) -> None:
    assert not [name for name in model.model_fields if f"`{name}`" not in TEXT]
