from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restrike.workflow.naming import file_name, file_stem

from .samples import DIGIT, expanded, findings, ids, keep, only, steps


def result(**block: Any) -> dict[str, Any]:
    return steps(a={**DIGIT, "result": block})


# What is saved.


def saved(**named: Any) -> dict[str, bool]:
    return {action.id: action.saves for action in expanded(steps(**named)).actions}


def test_what_no_other_step_reads_is_saved_and_what_one_reads_is_not() -> None:
    assert saved(a=DIGIT, b=keep("$step.a")) == {"a": False, "b": True}


def test_a_result_block_saves_unless_it_says_no() -> None:
    assert saved(a={**DIGIT, "result": {}}, b=keep("$step.a")) == {"a": True, "b": True}
    assert saved(a={**DIGIT, "result": {"save": False}}, b=keep("$step.a")) == {"a": False, "b": True}


def test_what_nothing_reads_and_nothing_saves_does_not_run_and_is_told() -> None:
    graph = expanded(steps(a=DIGIT, b=keep("$step.a"), c=keep("$step.b", result={"save": False}), d=keep(1)))
    assert ids(graph) == ["d"]
    assert graph.elided == ("a", "b", "c")
    assert len(graph.notices) == 3
    assert graph.notices[0] == "'a' does not run: nothing reads it, and it saves nothing"


def test_only_members_that_are_read_run() -> None:
    many = {**DIGIT, "for_each": ["x", "y"], "arguments": {"prompt": "a one"}}
    graph = expanded(steps(a=many, b=keep("$step.a[y]")))
    assert ids(graph) == ["a[y]", "b"]
    assert graph.elided == ("a[x]",)


def test_a_task_with_side_effects_runs_always() -> None:
    tell = {"task": "mine.tell", "arguments": {"text": "x"}, "result": {"save": False}}
    assert saved(a=tell) == {"a": False}


# Containers.


@pytest.mark.parametrize("container", ["png", "jpg", "webp", "gif", "mp4", "webm", "wav", "txt", "json"])
def test_the_containers(container: str) -> None:
    assert only(expanded(result(container=container))).result.container == container


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"container": "mp3"}, "container", "no container 'mp3'; did you mean"),
    ({"container": "bmp"}, "container", "did you mean 'png'? (there is gif, jpg, json, mp4, png, txt, wav"),
    (
        {"container": "mp4", "options": {"crff": 3}},
        "options.crff",
        "no option of mp4 'crff'; did you mean 'crf'?",
    ),
    ({"container": "mp4", "options": {"crf": 99}}, "options.crf", "crf must be a whole number from 1 to 51"),
    ({"container": "mp4", "options": {"crf": "x"}}, "options.crf", "crf must be a whole number"),
    ({"container": "webp", "options": {"lossless": 1}}, "options.lossless", "true or false"),
    ({"container": "webp", "options": {"quality": True}}, "options.quality", "a number"),
    ({"container": "txt", "options": {"crf": 1}}, "options.crf", "there is none"),
    ({"options": {"crf": 3}}, "options", "say which"),
    ({"folder": "../x"}, "folder", "no folder inside"),
    ({"folder": "/x"}, "folder", "no folder inside"),
    ({"folder": "a/../../x"}, "folder", "no folder inside"),
    ({"folder": "a\\..\\x"}, "folder", "no folder inside"),
    ({"folder": "."}, "folder", "no folder inside"),
    ({"folder": "C:x"}, "folder", "no folder inside"),
    ({"name": "a/b"}, "name", "no file's base name"),
    ({"name": ".."}, "name", "no file's base name"),
    ({"name": ""}, "name", "no file's base name"),
    ({"name": "x" * 101}, "name", "no file's base name"),
    ({"name": "manifest"}, "name", "is a file of the run itself"),
    ({"name": "Workflow"}, "name", "is a file of the run itself"),
    ({"name": "$var.gone"}, "name", "no variable"),
]


@pytest.mark.parametrize(("block", "path", "message"), WRONG)
def test_a_wrong_block_is_found_where_it_is(block: dict[str, Any], path: str, message: str) -> None:
    found = findings(result(**block))
    assert list(found) == [f"steps.a.result.{path}"]
    assert message in found[f"steps.a.result.{path}"]


# Names of files.


def names(written: dict[str, Any]) -> list[str]:
    return [file_name(action, "png", None) for action in expanded(written).actions if action.saves]


def test_files_are_named_by_step_and_member() -> None:
    many = {**DIGIT, "for_each": ["left", "right hand"], "arguments": {"prompt": "a one"}}
    found = names(steps(a=DIGIT, b=many))
    assert found == ["a.png", "b-left.png", "b-right-hand.png"]
    odd = names(steps(a={**DIGIT, "for_each": {"a:b": 1, "a b": 2}, "arguments": {"prompt": "a one"}}))
    assert odd[0].startswith("a-a-b-")
    assert odd[1] == "a-a-b.png"


def test_folder_and_name_are_the_blocks() -> None:
    assert names(result(folder="a/b", name="end")) == ["a/b/end.png"]


def test_an_item_has_its_number() -> None:
    action = only(expanded(steps(a=DIGIT)))
    assert file_name(action, "png", 3) == "a-3.png"


@given(st.text(min_size=1), st.text(min_size=1))
def test_no_name_of_a_member_leads_out_of_the_folder(one: str, other: str) -> None:
    many = {**DIGIT, "for_each": {one: 1, other + "x": 2}, "arguments": {"prompt": "a one"}}
    # The step itself saves nothing, so that names which differ in blanks alone are not refused.
    graph = expanded(steps(a={**many, "result": {"save": False}}, b=keep("$step.a[*]")))
    stems = [file_stem(action) for action in graph.actions if action.step == "a"]
    for stem in stems:
        path = PurePosixPath(stem)
        assert len(path.parts) == 1
        assert not path.is_absolute()
        assert ".." not in path.parts
        assert "\0" not in stem


# No file is written twice.


def test_members_whose_names_differ_in_blanks_alone_would_write_one_file() -> None:
    many = {**DIGIT, "for_each": ["a one", "a-one"], "arguments": {"prompt": "a one"}}
    assert clash(a=many) == ["steps.a.result.name"]


def clash(**named: Any) -> list[str]:
    found = findings(steps(**named))
    assert all("writes" in message for message in found.values())
    return list(found)


def test_two_steps_never_write_the_same_file() -> None:
    one, other = {**DIGIT, "result": {"name": "x"}}, {**DIGIT, "result": {"name": "X"}}
    assert clash(a=one, b=other) == ["steps.b.result.name"]
    assert clash(a=DIGIT, b={**DIGIT, "result": {"name": "a"}}) == ["steps.b.result.name"]


def test_another_folder_or_container_is_another_file() -> None:
    one = {**DIGIT, "result": {"name": "x", "container": "png"}}
    expanded(steps(a=one, b={**DIGIT, "result": {"name": "x", "container": "webp"}}))
    expanded(steps(a=one, b={**DIGIT, "result": {"name": "x", "folder": "f"}}))
    assert clash(a=one, b={**DIGIT, "result": {"name": "x"}})


def test_items_of_a_batch_are_files_too() -> None:
    batch = {**DIGIT, "arguments": {"prompt": "a one", "count": 2}}
    assert clash(a=batch, b={**DIGIT, "result": {"name": "a-1"}}) == ["steps.b.result.name"]
    expanded(steps(a=batch, b={**DIGIT, "result": {"name": "a-2"}}))


def test_members_that_a_name_does_not_tell_apart_still_get_files_of_their_own() -> None:
    many = {**DIGIT, "for_each": ["x", "y"], "arguments": {"prompt": "a one"}, "result": {"name": "same"}}
    assert names(steps(a=many)) == ["same-x.png", "same-y.png"]


def test_no_name_is_longer_than_file_systems_take() -> None:
    entry = "漢" * 60
    inner = {**keep("$item"), "for_each": [entry, f"{entry}x"]}
    graph = expanded(steps(a={"for_each": [entry], "workflow": {"steps": {"b": inner}}}))
    names = [file_name(action, "json", 999) for action in graph.actions]
    assert len(set(names)) == 2
    assert max(len(name.encode()) for name in names) <= 255
