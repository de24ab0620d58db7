"""Definitions that mean harm: none takes long, none breaks out of its folder, each is told in one line."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from restrike.workflow.findings import InvalidWorkflow
from restrike.workflow.loading import load_text

from .samples import DIGIT, expanded, findings, ids, keep, steps


@contextmanager
def soon(limit_s: float = 10.0) -> Iterator[None]:
    """Far above what it takes, far below what it took."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < limit_s


# Names.


@pytest.mark.parametrize("name", ["manifest", "workflow", "Workflow"])
@pytest.mark.parametrize("block", [{}, {"container": "json"}])
def test_no_step_writes_a_file_of_the_run(name: str, block: dict[str, Any]) -> None:
    found = findings(steps(**{name: keep([1], result=block)}))
    assert "is a file of the run itself" in found[f"steps.{name}.result.name"]
    assert "is a file of the run itself" in findings(steps(a=keep([1], result={"name": name}))).popitem()[1]


def test_another_suffix_or_folder_than_the_runs_own_files_is_free() -> None:
    assert ids(expanded(steps(workflow={**DIGIT, "result": {"container": "png"}}))) == ["workflow"]
    assert ids(expanded(steps(manifest=keep([1], result={"folder": "a"})))) == ["manifest"]


@pytest.mark.parametrize("folder", ["manifest.json", "Manifest.JSON/a", "workflow.json"])
def test_a_file_of_the_run_is_no_folder(folder: str) -> None:
    found = findings(steps(a=keep([1], result={"folder": folder, "container": "json"})))
    assert "a file of the run itself" in found["steps.a.result.folder"]


def test_a_file_of_another_step_is_no_folder() -> None:
    table = {"container": "json"}
    found = findings(steps(a=keep([1], result=table), b=keep([2], result={"folder": "a.json", **table})))
    assert "a file of 'a'" in found["steps.b.result.folder"]


def test_a_list_of_unknown_length_keeps_its_numbered_names() -> None:
    found = findings(steps(a=keep([1]), **{"a-0": keep([2])}))
    assert "'a' may write 'a-0.*' too" in found["steps.a-0.result.name"]
    # A negative control: neither a number, nor a suffix that a list of these has.
    assert len(ids(expanded(steps(a=keep([1]), **{"a-b": keep([2])})))) == 2
    png, txt = {"container": "png"}, {"container": "txt"}
    assert len(ids(expanded(steps(a=keep([1], result=png), **{"a-0": keep("", result=txt)})))) == 2


@pytest.mark.parametrize("name", ["a\nb", "\x1b[31m", "\u202e", "\ud800"])
def test_what_cannot_be_shown_is_no_name(name: str) -> None:
    assert "steps.a.result.name" in findings(steps(a=keep(1, result={"name": name})))
    assert "steps.a.result.folder" in findings(steps(a=keep(1, result={"folder": name})))


def test_a_folder_fits_a_file_system() -> None:
    assert "steps.a.result.folder" in findings(steps(a=keep(1, result={"folder": "漢" * 80})))


# Weight.


def test_a_json_object_with_a_key_twice_is_found_soon() -> None:
    text = '{"a": 1, "a": 2, ' + ", ".join(f'"k{number}": 1' for number in range(40_000)) + "}"
    with soon(), pytest.raises(InvalidWorkflow, match="a: the key is there twice"):
        load_text(text, as_json=True)


def test_many_mappings_merge_soon() -> None:
    parts = ", ".join(f"{{k{number}: 1}}" for number in range(15_000))
    with soon():
        assert len(load_text(f"a:\n  <<: [{parts}]")["a"]) == 15_000


def test_the_first_of_several_merged_mappings_wins() -> None:
    assert load_text("a: {<<: [{x: 1, y: 1}, {x: 2, z: 2}], y: 3}") == {"a": {"x": 1, "y": 3, "z": 2}}


@pytest.mark.parametrize("digits", ["0x" + "f" * 5000, "1" * 5000])
def test_a_number_that_nobody_can_write_is_told(digits: str) -> None:
    with pytest.raises(InvalidWorkflow, match="cannot be read as int"):
        load_text(f"a: {digits}")


def test_members_of_members_that_are_all_wrong_are_not_all_told() -> None:
    inner = {"for_each": list(range(1000)), "task": "no.such", "arguments": {}}
    outer = {"for_each": list(range(1000)), "workflow": {"steps": {"b": inner}}}
    with soon(30):
        assert "mend these first" in findings(steps(a=outer))["steps"]


def test_an_item_number_without_end_is_no_member() -> None:
    found = findings(steps(a=keep([1]), b=keep(f"$step.a[{'9' * 5000}]")))
    assert "steps.b.arguments.value" in found


def test_defaults_of_defaults_end() -> None:
    step = {**keep("$item.a | " * 3000 + "1"), "for_each": [{"b": 1}]}
    assert "more than 16 defaults" in findings(steps(a=step))["steps.a.arguments.value"]


def test_the_default_of_a_default_is_waited_for() -> None:
    step = {**keep("$item.a | $item.b | $step.late"), "for_each": [{"c": 1}]}
    assert ids(expanded(steps(a=step, late=keep(1))))[0] == "late"
