"""The plan says what the run then does, without computing or writing anything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from restrike.errors import Cancelled, Unknown
from restrike.workflow.plan import Status
from restrike.workflow.runner import Audited, StepEnded
from restrike.workflow.runs import Manifest
from restrike.workflow.session import Asked, Watch
from restrike.workflow.source import read_tree

from .lab import Lab, computed, digit, does, files, planned, resized, snapshot, steps

FLOW = {
    "seed": 7,
    "variables": {"prompts": ["one", "two"], "side": 16, "text": "x"},
    "steps": {
        "many": {
            **digit("$item"),
            "for_each": "$var.prompts",
            "result": {},
        },
        "big": {
            **resized("$item", "$var.side"),
            "for_each": {"a": "$step.many[one]", "b": "$step.many[two]"},
        },
        "shown": {"task": "own.show", "arguments": {"value": "$var.text"}},
        "unread": {"task": "own.nan", "result": {"save": False}},
    },
}
EDITS: list[dict[str, Any]] = [
    {},
    {"text": "y"},
    {"side": 20},
    {"prompts": ["one", "two", "three"]},
    {"prompts": ["two", "one"]},
    {},
]


def test_the_plan_is_what_the_run_does(lab: Lab) -> None:
    for values in EDITS:
        plan = lab.plan(FLOW, values=values)
        manifest = lab.run(FLOW, values=values)
        sure = {action: status for action, status in planned(plan).items() if status != "may run"}
        assert sure.items() <= does(manifest).items()
        assert planned(plan).keys() == does(manifest).keys()
        assert plan.elided == ("unread",)
        assert any("'unread' does not run" in notice for notice in plan.notices)
        assert manifest.notices == plan.notices
        assert set(planned(lab.plan(FLOW, values=values)).values()) == {"reused"}


def test_a_run_that_reuses_all_makes_no_engine(lab: Lab) -> None:
    lab.run(FLOW)

    def refuse() -> None:
        raise AssertionError("nothing is generated")

    session = replace(lab.session, make_engine=refuse)
    assert computed(session.run(read_tree(FLOW, name="w"), Asked())) == set()


def test_a_plan_writes_nothing(lab: Lab) -> None:
    before = snapshot(lab.root)
    lab.plan(FLOW)
    assert snapshot(lab.root) == before == {}
    lab.run(FLOW)
    before = snapshot(lab.root)
    lab.plan(FLOW, values={"text": "other"})
    assert snapshot(lab.root) == before
    assert lab.engine.generations == 2


def test_a_plan_tells_where_values_came_from_and_how_long_the_rest_takes(lab: Lab) -> None:
    first = lab.plan(FLOW)
    assert all(row.seconds is None for row in first.rows)
    lab.run(FLOW)
    plan = lab.plan(FLOW, values={"text": "new"})
    assert {row.origin for row in plan.rows if row.status is Status.REUSED} == {"w/0001"}
    (row,) = (row for row in plan.rows if row.status is Status.RUNS)
    assert row.action == "shown"
    assert row.seconds is not None
    assert plan.seconds == row.seconds
    label = "own.show history"
    for seconds in (1.0, 5.0, 3.0):
        lab.store.record_timing(label, seconds)
    assert sorted(lab.store.timings(label)) == [1.0, 3.0, 5.0]
    assert lab.plan(FLOW).seconds == 0.0


def test_the_estimate_is_the_median_of_what_was_measured(lab: Lab) -> None:
    lab.run(FLOW)
    for seconds in (100.0, 3.0, 3.0, 3.0, 2.0):
        lab.store.record_timing("task own.show", seconds)
    plan = lab.plan(FLOW, values={"text": "new"})
    assert plan.seconds == 3.0


def fingerprint(lab: Lab, tree: dict[str, Any] = FLOW, **asked: Any) -> str:
    return lab.plan(tree, **asked).fingerprint


def test_equal_work_has_an_equal_fingerprint(lab: Lab) -> None:
    one = fingerprint(lab)
    assert one == fingerprint(lab)
    assert one == fingerprint(lab, seed=8)
    reordered = {**FLOW, "name": "other", "steps": dict(reversed(FLOW["steps"].items()))}
    assert one == fingerprint(lab, reordered)
    for values in EDITS[1:-1]:
        assert (one == fingerprint(lab, values=values)) == (values == {"prompts": ["two", "one"]})
    lab.run(FLOW)
    assert fingerprint(lab) != one  # nothing is left to do
    assert fingerprint(lab, rerun=("many", "big", "shown")) == one


def test_what_an_input_is_counts_for_the_fingerprint(lab: Lab) -> None:
    def tree(first: str, second: str) -> dict[str, Any]:
        shown = {"task": "own.show", "arguments": {"value": [first, second]}}
        return steps(a=digit("a one"), b=digit("a two"), shown=shown)

    assert fingerprint(lab, tree("$step.a", "$step.b")) != fingerprint(lab, tree("$step.b", "$step.a"))


def test_arguments_of_a_step_with_side_effects_count_for_the_fingerprint(lab: Lab) -> None:
    def tree(log: str) -> dict[str, Any]:
        return steps(a={"task": "own.counted", "arguments": {"log": log}})

    assert fingerprint(lab, tree("a")) != fingerprint(lab, tree("b"))
    assert fingerprint(lab, tree("a")) == fingerprint(lab, tree("a"))


def test_bytes_to_download_count_once_for_all_steps_of_a_card(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    from restrike.workflow.operations.generate import Generate

    monkeypatch.setattr(Generate, "download_bytes", lambda self: 1000)
    plan = lab.plan(steps(a=digit("a one"), b=digit("a two")))
    assert [row.download_bytes for row in plan.rows] == [1000, 0]
    assert plan.download_bytes == 1000


def test_no_reuse_computes_all_and_says_so(lab: Lab) -> None:
    tree = steps(base=digit(), big=resized("$step.base"))
    first = lab.run(tree)
    second = lab.run(tree, reuse=False)
    assert computed(second) == {"base", "big"}
    assert {step.reason for step in second.steps} == {"reuse is off"}
    assert files(lab, first) == files(lab, second)
    assert computed(lab.run(tree)) == set()


def test_rerun_computes_the_named_step_and_what_its_new_value_reaches(lab: Lab) -> None:
    tree = steps(now={"task": "own.clock"}, shown={"task": "own.show", "arguments": {"value": "$step.now"}})
    lab.run(tree)
    assert planned(lab.plan(tree, rerun=("now",))) == {"now": "computed", "shown": "may run"}
    second = lab.run(tree, rerun=("now",))
    assert computed(second) == {"now", "shown"}
    assert second.steps[0].reason == "asked to run again"
    assert computed(lab.run(tree)) == set()  # the new value took the place of the old
    assert does(lab.run(steps(base=digit()), rerun=("base",))) == {"base": "computed"}
    with pytest.raises(Unknown, match="did you mean 'now'"):
        lab.run(tree, rerun=("nwo",))


def test_a_rerun_that_fails_loses_nothing(lab: Lab) -> None:
    gate = lab.root / "gate"
    gate.touch()
    tree = steps(a={"task": "own.fails", "arguments": {"text": "x", "unless": str(gate)}})
    lab.run(tree)
    gate.unlink()
    with pytest.raises(Exception, match="not yet"):
        lab.run(tree, rerun=("a",))
    assert computed(lab.run(tree)) == set()


def test_audit_finds_a_planted_difference(lab: Lab) -> None:
    tree = steps(base=digit(), now={"task": "own.clock"})
    lab.run(tree)
    audits: dict[str, bool] = {}

    def see(event: object) -> None:
        if isinstance(event, Audited):
            audits[event.action] = event.same

    manifest = lab.run(tree, audit=True, watch=Watch(run=see))
    assert computed(manifest) == set()
    assert audits == {"base": True, "now": False}


def test_eviction_spares_what_a_run_needs(lab: Lab) -> None:
    lab.store.limit_bytes = 1
    tree = steps(
        base=digit(), **{f"s{n}": resized("$step.base", 8 + n) for n in range(4)}, last=resized("$step.s0", 9)
    )
    manifest = lab.run(tree)
    assert lab.store.verify().damaged == ()
    assert len(files(lab, manifest)) == 4
    assert manifest.status == "finished"
    assert not any("damaged" in step.reason for step in manifest.steps)
    lab.store.collect(0)
    assert lab.store.stats().entries == 0
    assert files(lab, lab.run(tree)) == files(lab, manifest)


def test_explain_tells_each_step(lab: Lab) -> None:
    tree = steps(base=digit(), big=resized("$step.base"))
    first = lab.run(tree)
    second = lab.run(steps(base=digit(), big=resized("$step.base", 20)))
    one, two = lab.session.explain(second.run)
    assert one.why == "reused, first computed by w/0001"
    assert one.key is not None
    assert {"operation", "arguments", "scope", "seed"} <= one.key.parts.keys()
    assert two.why == "computed: nearest earlier result differs in arguments.height, arguments.width"
    assert str(two.differences[0]) == "arguments.height: 16 -> 20"
    nothing = "computed: nothing of this operation was kept before in this workspace"
    assert lab.session.explain(first.run)[0].why == nothing
    third = lab.run(steps(base=digit("a one"), big=resized("$step.base")))
    assert "arguments.prompt" in lab.session.explain(third.run)[0].why
    assert lab.session.explain(third.run)[1].why.endswith("differs in arguments.clip")


def test_what_another_workspace_keeps_is_no_earlier_result(lab: Lab) -> None:
    Lab(lab.root, lab.engine, lab.tasks, workspace="_ready").run(steps(base=digit("zero")))
    (step,) = lab.session.explain(lab.run(steps(base=digit())).run)
    assert (step.nearest, step.why.endswith("kept before in this workspace")) == (None, True)
    shared = {**steps(base=digit("a one")), "reuse": {"scope": "shared"}}
    (step,) = lab.session.explain(lab.run(shared).run)
    assert (step.nearest, step.why.endswith("kept before with the shared results")) == (None, True)
    (step,) = lab.session.explain(lab.run(steps(base=digit("zero"))).run)
    assert [each.path for each in step.differences] == ["arguments.prompt"]


def test_siblings_of_a_run_are_not_earlier_and_a_new_member_says_that_it_is_new(lab: Lab) -> None:
    def members(*digits: str) -> Manifest:
        return lab.run(steps(digit={**digit("$item"), "for_each": list(digits)}))

    def whys(manifest: Manifest) -> dict[str, str]:
        return {step.record.action: step.why for step in lab.session.explain(manifest.run)}

    first = whys(members("three", "seven"))
    assert len(first) == 2
    assert all(why.endswith("kept before in this workspace") for why in first.values())
    (lab.folder(members("three", "seven")).parent / "0003").mkdir()  # a run that has no manifest yet
    added = whys(members("three", "seven", "nine"))
    assert added["digit[three]"].startswith("reused")
    assert added["digit[nine]"] == "computed: a new member, which w/0002 did not have"
    # An edited text is a member of another name: the one that is gone is what it differs from.
    edited = whys(members("three", "seven", "a nine"))
    assert "arguments.prompt" in edited["digit[a nine]"]
    assert "new member" not in edited["digit[a nine]"]


def test_what_a_resumed_run_made_before_is_not_earlier_either(lab: Lab) -> None:
    def stop(event: object) -> None:
        if isinstance(event, StepEnded):
            raise Cancelled("enough")

    tree = steps(one=digit("a one"), two=digit("a two"))
    with pytest.raises(Cancelled):
        lab.run(tree, watch=Watch(run=stop))
    resumed = lab.session.resume("w/latest")
    assert all(step.nearest is None for step in lab.session.explain(resumed.run))
