from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from restrike.workflow.graph import Input
from restrike.workflow.source import Source, read_file

from .samples import DIGIT, arguments, expanded, findings, ids, keep, keys_of, steps

CHILD: dict[str, Any] = {
    "variables": {"prompt": {"type": "text"}, "width": 16},
    "steps": {
        "base": {"generate": "digits", "arguments": {"prompt": "$var.prompt"}},
        "big": {"task": "picture.resize", "arguments": {"clip": "$step.base", "width": "$var.width"}},
    },
}


def write(path: Path, tree: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(tree))
    return path


def parent(workflow: Any = "child.json", **more: Any) -> dict[str, Any]:
    return steps(child={"workflow": workflow, "arguments": {"prompt": "a one"}, **more})


@pytest.fixture
def source(tmp_path: Path) -> Source:
    write(tmp_path / "child.json", CHILD)
    return read_file(write(tmp_path / "parent.json", parent()))


def test_the_steps_of_a_nested_workflow_are_actions_of_the_graph(source: Source) -> None:
    graph = expanded(source)
    assert ids(graph) == ["child/base", "child/big"]
    assert arguments(graph, "child/base")["prompt"] == "a one"
    assert arguments(graph, "child/big")["clip"] == Input(action="child/base")
    assert [action.id for action in graph.actions if action.saves] == ["child/big"]
    assert graph.name == "parent"


def test_a_file_an_inline_copy_and_a_renamed_one_have_the_same_keys(source: Source) -> None:
    keys = set(keys_of(expanded(source)).values())
    assert set(keys_of(expanded(parent(CHILD))).values()) == keys
    assert set(keys_of(expanded({**parent(CHILD), "name": "other"})).values()) == keys
    flat = {**CHILD, "seed": 7}
    assert set(keys_of(expanded(flat, {"prompt": "a one"})).values()) == keys


def test_its_result_is_its_last_step_or_the_one_it_names() -> None:
    reader = {"b": keep("$step.child")}
    last = parent(CHILD)
    last["steps"] |= reader
    assert arguments(expanded(last), "b")["value"] == Input(action="child/big")
    named = parent({**CHILD, "output": "base"})
    named["steps"] |= reader
    assert arguments(expanded(named), "b")["value"] == Input(action="child/base")
    found = findings(parent({**CHILD, "output": "bse"}))
    assert found == {
        "steps.child.workflow.output": "no step 'bse'; did you mean 'base'? (there is base, big)"
    }


def test_an_argument_may_come_from_a_step() -> None:
    written = steps(words=keep("a one"), child={"workflow": CHILD, "arguments": {"prompt": "$step.words"}})
    assert arguments(expanded(written), "child/base")["prompt"] == Input(action="words")


def test_arguments_are_the_variables() -> None:
    found = findings(steps(child={"workflow": CHILD, "arguments": {"promt": "x", "width": "wide"}}))
    assert found == {
        "steps.child.arguments.promt": "no variable 'promt'; did you mean 'prompt'? (there is prompt, width)",
        "steps.child.arguments.width": "'wide' is not an integer",
        "steps.child.arguments": "the workflow needs a value of its variable 'prompt'",
    }


def test_members_are_nested_workflows_of_their_own() -> None:
    step = {"workflow": CHILD, "for_each": ["a one", "a two"], "arguments": {"prompt": "$item"}}
    graph = expanded(steps(child=step, b=keep("$step.child[*]"), c=keep("$step.child[a two]")))
    assert ids(graph)[:2] == ["child[a one]/base", "child[a one]/big"]
    assert (
        arguments(graph, "b")["value"][1]
        == arguments(graph, "c")["value"]
        == Input(action="child[a two]/big")
    )
    assert graph.action("child[a one]/base").seed != graph.action("child[a two]/base").seed


# Seeds.


def seed_of(step_seed: Any = None, child_seed: Any = None) -> int | None:
    child = CHILD if child_seed is None else {**CHILD, "seed": child_seed}
    more = {} if step_seed is None else {"seed": step_seed}
    return expanded(parent(child, **more)).action("child/base").seed


def test_the_seed_is_that_of_the_step_else_its_own_else_inherited() -> None:
    assert seed_of() == 7
    assert seed_of(child_seed="random") == 7
    assert seed_of(child_seed=5) == 5
    assert seed_of(step_seed=3) == 3
    assert seed_of(step_seed=3, child_seed=5) == 3


# Findings.


def test_what_is_wrong_in_a_file_is_found_in_that_file(tmp_path: Path) -> None:
    write(
        tmp_path / "child.json", {**CHILD, "sede": 1, "steps": {"a": {**DIGIT, "arguments": {"prompt": 3}}}}
    )
    found = expanded_findings(tmp_path, parent())
    assert len(found) == 2
    assert found[0].startswith(
        "steps.child.workflow: in 'child.json', sede: unknown key 'sede'; did you mean 'seed'?"
    )
    assert found[1].startswith(
        "steps.child.workflow: in 'child.json', steps.a.arguments.prompt: prompt 3 is not"
    )


def expanded_findings(folder: Path, written: dict[str, Any], workspace: Path | None = None) -> list[str]:
    from restrike.workflow.findings import InvalidWorkflow

    source = read_file(write(folder / "parent.json", written))
    with pytest.raises(InvalidWorkflow) as caught:
        expanded(source, workspace=workspace or folder / "workspace")
    return [str(finding) for finding in caught.value.findings]


def test_what_is_wrong_inside_is_found_at_its_place() -> None:
    found = findings(parent({**CHILD, "steps": {**CHILD["steps"], "x": keep("$var.gone")}}))
    assert found == {
        "steps.child.workflow.steps.x.arguments.value": "no variable 'gone' (there is prompt, width)"
    }


def test_files_that_name_each_other_in_a_circle_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "child.json", {"steps": {"up": {"workflow": "parent.json"}}})
    found = expanded_findings(tmp_path, steps(child={"workflow": "child.json"}))
    assert "in a circle: parent.json -> child.json -> parent.json" in found[0]


def test_nesting_has_a_limit() -> None:
    tree: dict[str, Any] = steps(a=keep(1))
    for _ in range(7):
        tree = steps(a={"workflow": tree})
    assert ids(expanded(tree)) == ["/".join("a" * 8)]
    found = findings(steps(a={"workflow": tree}))
    assert next(iter(found.values())) == "workflows are nested deeper than 8"


def test_a_file_outside_is_never_read(tmp_path: Path) -> None:
    inner = tmp_path / "in"
    write(tmp_path / "secret.json", {"steps": {"a": {"task": "x"}}})
    inner.mkdir()
    os.symlink(tmp_path / "secret.json", inner / "link.json")
    for name in ("../secret.json", str(tmp_path / "secret.json"), "link.json", "../gone.json", "a\0b"):
        (found,) = expanded_findings(inner, parent(name))
        assert "lies in the folder of this one" in found or "is no path" in found
        assert "secret" not in found.partition("workflow: ")[2]


def test_a_file_of_the_workspace_may_be_named(tmp_path: Path) -> None:
    write(tmp_path / "workspace" / "child.json", CHILD)
    source = read_file(write(tmp_path / "here" / "parent.json", parent("../workspace/child.json")))
    assert ids(expanded(source, workspace=tmp_path / "workspace")) == ["child/base", "child/big"]
    assert ids(expanded(parent("child.json"), workspace=tmp_path / "workspace")) == [
        "child/base",
        "child/big",
    ]


def test_a_file_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    write(tmp_path / "child.json", CHILD)
    (found,) = expanded_findings(tmp_path, parent("chil.json"))
    assert "no workflow file 'chil.json'; did you mean 'child.json'?" in found


def test_a_broken_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "child.json").write_text("{")
    (found,) = expanded_findings(tmp_path, parent())
    assert found.startswith("steps.child.workflow: in 'child.json', line 1, column 2: not JSON")


def test_its_own_reuse_has_no_effect_and_that_is_told() -> None:
    graph = expanded(parent({**CHILD, "reuse": {"scope": "shared"}}))
    assert graph.notices == ("'child': its own `reuse` has no effect inside another workflow",)
    assert graph.scope == "workspace"
