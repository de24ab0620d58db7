"""Nothing is computed twice: edits, switches, copies and renames reuse all that they do not reach."""

from __future__ import annotations

import shutil
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from restrike.settings import settings_of
from restrike.workflow.runs import RunFolder

from .lab import Lab, computed, digit, does, files, planned, resized, steps

CHAIN = {
    "seed": 7,
    "variables": {"prompt": "a seven", "side": 16, "colour": "black"},
    "steps": {
        "base": {**digit("$var.prompt"), "result": {"container": "png"}},
        "big": resized("$step.base", "$var.side"),
        "padded": {
            "task": "picture.pad",
            "arguments": {"clip": "$step.big", "left": 2, "colour": "$var.colour"},
        },
    },
}


def test_a_late_argument_reruns_only_what_reads_it_and_changing_it_back_nothing(lab: Lab) -> None:
    assert computed(lab.run(CHAIN)) == {"base", "big", "padded"}
    assert computed(lab.run(CHAIN, values={"colour": "white"})) == {"padded"}
    assert computed(lab.run(CHAIN, values={"side": 24})) == {"big", "padded"}
    assert computed(lab.run(CHAIN, values={"prompt": "a two"})) == {"base", "big", "padded"}
    for values in ({}, {"colour": "white"}, {"side": 24}, {"prompt": "a two"}, {}):
        assert computed(lab.run(CHAIN, values=values)) == set()
    assert lab.engine.generations == 2


def test_a_reused_run_has_the_bytes_of_the_first(lab: Lab) -> None:
    first, second = lab.run(CHAIN), lab.run(CHAIN)
    assert files(lab, first) == files(lab, second)
    assert lab.folder(first) != lab.folder(second)
    assert all(step.origin == first.run for step in second.steps)
    fresh = lab.run(CHAIN, reuse=False)
    assert files(lab, fresh) == files(lab, first)


def test_switching_workflows_loses_nothing_even_after_a_restart(lab: Lab) -> None:
    other = steps(base=digit("a one"), big=resized("$step.base"))
    lab.run(CHAIN)
    lab.run(other)
    assert computed(lab.run(CHAIN)) == set()
    again = lab.restarted()
    assert computed(again.run(other)) == set()
    assert computed(again.run(CHAIN)) == set()
    assert lab.engine.generations == 2


def reordered(tree: dict[str, Any]) -> dict[str, Any]:
    return {**tree, "steps": dict(reversed(tree["steps"].items()))}


def renamed(tree: dict[str, Any]) -> dict[str, Any]:
    one = deepcopy(tree)
    one["name"] = "copy"
    one["steps"] = {f"my-{name}": step for name, step in one["steps"].items()}
    for step in one["steps"].values():
        for name, value in step["arguments"].items():
            if isinstance(value, str) and value.startswith("$step."):
                step["arguments"][name] = value.replace("$step.", "$step.my-")
    return one


def inlined(tree: dict[str, Any]) -> dict[str, Any]:
    return {"name": "outer", "seed": 7, "steps": {"child": {"workflow": tree}}}


@pytest.mark.parametrize("copy", [reordered, renamed, inlined])
def test_a_copy_under_other_names_reuses_all(lab: Lab, copy: Any) -> None:
    first = lab.run(CHAIN)
    second = lab.run(copy(CHAIN))
    assert computed(second) == set()
    assert len(second.steps) == 3
    assert sorted(files(lab, second).values()) == sorted(files(lab, first).values())
    assert lab.engine.generations == 1
    assert set(planned(lab.plan(copy(CHAIN))).values()) == {"reused"}


def test_deleting_the_first_run_leaves_the_copy_and_the_store_whole(lab: Lab) -> None:
    first = lab.run(CHAIN)
    second = lab.run(renamed(CHAIN))
    before = files(lab, second)
    RunFolder(lab.folder(first)).delete()
    assert files(lab, second) == before
    assert lab.store.verify().damaged == ()
    assert computed(lab.run(CHAIN)) == set()


def test_writing_into_a_published_file_changes_nothing_else(lab: Lab) -> None:
    first, second = lab.run(CHAIN), lab.run(CHAIN)
    before = files(lab, first)
    for file in lab.folder(second).glob("*.png"):
        with file.open("r+b") as opened:
            opened.write(b"spoiled")
    assert files(lab, first) == before
    assert lab.store.verify().damaged == ()
    assert files(lab, lab.run(CHAIN)) == before


def test_another_result_block_encodes_again_and_computes_nothing(lab: Lab) -> None:
    lab.run(CHAIN)
    edited = deepcopy(CHAIN)
    edited["steps"]["base"]["result"] = {"container": "webp", "folder": "web", "name": "first"}
    second = lab.run(edited)
    assert computed(second) == set()
    assert lab.engine.generations == 1
    (file,) = second.steps[0].files
    assert file.file == "web/first.webp"
    assert not file.reused
    assert lab.run(edited).steps[0].files[0].reused
    assert (lab.folder(second) / "web" / "first.webp").read_bytes()[8:12] == b"WEBP"


def test_equal_bytes_upstream_wake_no_consumer(lab: Lab) -> None:
    def tree(filter: str) -> dict[str, Any]:
        # The digit is 8 pixels wide already: no filter changes it.
        return steps(base=digit(), same=resized("$step.base", 8, filter=filter), last=resized("$step.same"))

    lab.run(tree("lanczos"))
    plan = lab.plan(tree("nearest"))
    assert planned(plan) == {"base": "reused", "same": "computed", "last": "may run"}
    assert plan.rows[2].unless == ("same",)
    second = lab.run(tree("nearest"))
    assert does(second) == {"base": "reused", "same": "computed", "last": "reused"}


def test_a_consumer_of_other_bytes_is_woken(lab: Lab) -> None:
    lab.run(steps(base=digit(), same=resized("$step.base", 8), last=resized("$step.same", 9)))
    second = lab.run(steps(base=digit(), same=resized("$step.base", 10), last=resized("$step.same", 9)))
    assert does(second) == {"base": "reused", "same": "computed", "last": "computed"}


def test_a_workspace_sees_nothing_of_another_unless_shared(lab: Lab) -> None:
    other = Lab(lab.root, lab.engine, lab.tasks, "elsewhere")
    lab.run(CHAIN)
    assert len(computed(other.run(CHAIN))) == 3
    shared = {**CHAIN, "reuse": {"scope": "shared"}}
    assert len(computed(lab.run(shared))) == 3
    assert computed(other.run(shared)) == set()


def test_a_moved_workspace_keeps_its_results(lab: Lab) -> None:
    lab.run(CHAIN)
    shutil.move(lab.root / "workspace", lab.root / "moved")
    assert computed(Lab(lab.root, lab.engine, lab.tasks, "moved").run(CHAIN)) == set()


def test_exact_matches_only_the_same_machine(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = {**CHAIN, "reuse": {"match": "exact"}}
    assert len(computed(lab.run(exact))) == 3
    assert computed(lab.run(exact)) == set()
    from restrike.workflow.operations import generate

    facts = generate.machine_identity("cpu")
    monkeypatch.setattr(generate, "machine_identity", lambda device: {**facts, "torch": "9.9"})
    assert computed(lab.run(exact)) == {"base"}
    near = replace(settings_of({}), kernels="fast")
    monkeypatch.setattr(generate, "settings", lambda: near)
    assert computed(lab.run(exact)) == {"base"}, "kernels that are only near may serve"
    assert computed(lab.run(CHAIN)) == {"base", "big", "padded"}


def test_members_are_reused_by_their_names(lab: Lab) -> None:
    def tree(*prompts: str) -> dict[str, Any]:
        many = {**digit("$item.prompt"), "for_each": {name: {"prompt": f"a {name}"} for name in prompts}}
        return steps(many=many)

    lab.run(tree("one", "two"))
    assert computed(lab.run(tree("one", "three", "two"))) == {"many[three]"}


def test_runs_of_two_results_publish_every_item(lab: Lab) -> None:
    manifest = lab.run(steps(base=digit(count=3)))
    assert [file.file for file in manifest.steps[0].files] == [f"base-{n}.png" for n in range(3)]
    assert len(set(files(lab, manifest).values())) == 3
    again = lab.run(steps(base=digit(count=3)))
    assert all(file.reused for file in again.steps[0].files)


def test_the_order_of_a_table_is_the_same_whether_it_was_kept_or_not(lab: Lab) -> None:
    """No key holds the order of a mapping, so no step may see one that the store would not give."""
    table = {"task": "own.table", "result": {}}
    shown = {"task": "own.show", "arguments": {"value": "$step.table"}}
    first = lab.run(steps(table=table, shown=shown))
    assert files(lab, first)["shown.txt"] == b"{'a': 3, 'b': 2, 'long': 1}\n"
    lab.store.remove(lab.store.find(str(first.steps[1].key)).key)
    second = lab.run(steps(table=table, shown=shown))
    assert does(second) == {"table": "reused", "shown": "computed"}
    assert files(lab, second) == files(lab, first)
