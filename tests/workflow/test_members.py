from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restrike.workflow.graph import Input
from restrike.workflow.members import MAX_MEMBERS, cleaned, member_name

from .samples import DIGIT, arguments, expanded, findings, ids, keep, keys_of, steps


def many(for_each: Any, **more: Any) -> dict[str, Any]:
    return {"for_each": for_each, **keep("$item"), **more}


def values(for_each: Any, **choices: Any) -> dict[str, Any]:
    graph = expanded(steps(a=many(for_each)), **choices)
    return {action.id: action.arguments["value"] for action in graph.actions}


def fault(for_each: Any, path: str = "steps.a.for_each") -> str:
    found = findings(steps(a=many(for_each)))
    assert list(found) == [path]
    return found[path]


# Names.


def test_entries_of_a_list_are_named_by_their_text() -> None:
    assert values(["left", "right hand", 2, 0.5, True, None]) == {
        "a[left]": "left",
        "a[right hand]": "right hand",
        "a[2]": 2,
        "a[0.5]": 0.5,
        "a[true]": True,
        "a[null]": None,
    }


def test_entries_of_a_table_are_named_by_their_keys() -> None:
    assert values({"slow": {"speed": 1}, "fast": {"speed": 2}}) == {
        "a[slow]": {"speed": 1},
        "a[fast]": {"speed": 2},
    }


def test_tables_in_a_list_are_named_by_their_own_name_or_by_what_they_hold() -> None:
    first, second = ids(expanded(steps(a=many([{"name": "left", "x": 1}, {"x": 2}]))))
    assert first == "a[left]"
    assert ids(expanded(steps(a=many([{"x": 2}])))) == [second]
    assert ids(expanded(steps(a=many([{"x": 3}])))) != [second]


def test_the_key_is_the_name() -> None:
    graph = expanded(steps(a=many(["left"], arguments={"value": "$key"})))
    assert arguments(graph, "a[left]")["value"] == "left"


@given(st.text())
def test_a_name_has_no_marks_of_a_reference_and_two_texts_two_names(text: str) -> None:
    name = cleaned(text)
    assert 0 < len(name) <= 60
    assert not set("[]/|*\n") & set(name)
    assert cleaned(name) == name
    assert cleaned(text + "x") != name


def test_an_input_is_named_by_its_action() -> None:
    assert member_name(Input(action="base", item=2)) == "base-2"


# An insert moves nothing.

entries = st.lists(st.text("abcdef1", min_size=1, max_size=8), min_size=1, max_size=6, unique=True)


@given(entries, st.data())
def test_an_insert_changes_no_other_member(written: list[str], data: st.DataObject) -> None:
    step = {"generate": "shapes", "arguments": {"prompt": "$item"}}
    before = keys_of(expanded(steps(a={**step, "for_each": written})))
    at = data.draw(st.integers(0, len(written)))
    longer = [*written[:at], "a new one", *written[at:]]
    after = keys_of(expanded(steps(a={**step, "for_each": longer})))
    assert {name: after[name] for name in before} == before


def test_members_differ_in_their_seeds_and_each_can_be_made_alone() -> None:
    step = {**DIGIT, "arguments": {"prompt": "a one"}}
    both = expanded(steps(a={**step, "for_each": ["x", "y"]}))
    alone = expanded(steps(other={**step, "for_each": ["y"]}))
    assert both.action("a[x]").seed != both.action("a[y]").seed == alone.action("other[y]").seed
    assert keys_of(both)["a[y]"] == keys_of(alone)["other[y]"]


# Fields and defaults.


def test_a_field_of_an_entry_and_a_default_for_those_without_it() -> None:
    step = many(
        {"a": {"x": 1, "y": 5}, "b": {"x": 2}},
        arguments={"value": {"x": "$item.x", "y": "$item.y | 9"}},
    )
    graph = expanded(steps(s=step))
    assert arguments(graph, "s[a]")["value"] == {"x": 1, "y": 5}
    assert arguments(graph, "s[b]")["value"] == {"x": 2, "y": 9}


def test_a_field_that_an_entry_lacks_is_found() -> None:
    step = many({"a": {"x": 1}}, arguments={"value": "$item.z"})
    found = findings(steps(s=step))
    assert found["steps.s.arguments.value"].startswith("no field of entry 'a' 'z' (there is x)")


def test_the_entry_means_nothing_without_for_each() -> None:
    step = {"task": "mine.keep", "arguments": {"value": "$item", "other": "$key"}}
    assert findings(steps(s=step)) == {
        "steps.s.arguments.other": "$key means something only in a step with for_each",
        "steps.s.arguments.value": "$item means something only in a step with for_each",
    }


# Lists from elsewhere.


def test_a_variable_may_hold_the_entries() -> None:
    written = {"variables": {"v": ["a", "b"]}, **steps(s=many("$var.v"))}
    assert ids(expanded(written)) == ["s[a]", "s[b]"]
    assert ids(expanded(written, {"v": '["c"]'})) == ["s[c]"]


def test_members_of_another_step_are_paired_by_name() -> None:
    first = {**DIGIT, "for_each": ["one", "two"], "arguments": {"prompt": "$item"}}
    second = {"task": "picture.resize", "for_each": "$step.a[*]", "arguments": {"clip": "$item", "width": 16}}
    graph = expanded(steps(a=first, b=second))
    assert ids(graph) == ["a[one]", "a[two]", "b[one]", "b[two]"]
    assert arguments(graph, "b[two]")["clip"] == Input(action="a[two]")


def test_items_of_a_step_of_known_length_are_members_by_number() -> None:
    first = {**DIGIT, "arguments": {"prompt": "a one", "count": 3}}
    second = {"task": "picture.resize", "for_each": "$step.a", "arguments": {"clip": "$item", "width": 16}}
    graph = expanded(steps(a=first, b=second))
    assert ids(graph) == ["a", "b[0]", "b[1]", "b[2]"]
    assert arguments(graph, "b[2]")["clip"] == Input(action="a", item=2)


def test_a_list_whose_length_nobody_knows_is_refused() -> None:
    first = {"task": "text.split", "arguments": {"text": "a b"}}
    found = findings(steps(a=first, b=many("$step.a")))
    assert "known only after it ran" in found["steps.b.for_each"]


# In step, and every combination.


def test_tables_in_step_are_paired_by_name() -> None:
    found = values({"zip": {"a": {"x": 1, "y": 2}, "b": {"y": 20, "x": 10}}})
    assert found == {"a[x]": {"a": 1, "b": 10}, "a[y]": {"a": 2, "b": 20}}


def test_lists_in_step_are_paired_by_position_and_named_by_both() -> None:
    found = values({"zip": {"a": ["red", "blue"], "b": ["circle", "star"]}})
    assert found == {
        "a[red-circle]": {"a": "red", "b": "circle"},
        "a[blue-star]": {"a": "blue", "b": "star"},
    }


def test_a_step_and_a_table_in_step() -> None:
    first = {**DIGIT, "for_each": ["one", "two"], "arguments": {"prompt": "$item"}}
    second = many({"zip": {"clip": "$step.a[*]", "w": {"two": 16, "one": 32}}})
    graph = expanded(steps(a=first, b=second))
    assert arguments(graph, "b[two]")["value"] == {"clip": Input(action="a[two]"), "w": 16}


def test_a_product_has_every_combination() -> None:
    found = values({"product": {"a": list("wxyz"), "b": [1, 2, 3]}})
    assert len(found) == 12
    assert found["a[y-2]"] == {"a": "y", "b": 2}


WRONG: list[tuple[Any, str, str]] = [
    ([], "steps.a.for_each", "has no entries"),
    ({}, "steps.a.for_each", "has no entries"),
    (["x", "y", "x"], "steps.a.for_each", "entries 0 and 2 are both called 'x'; write a table"),
    ([1, "1"], "steps.a.for_each", "entries 0 and 1 are both called '1'"),
    (["x"] * (MAX_MEMBERS + 1), "steps.a.for_each", "has 1001 entries; a for_each has at most 1000"),
    (
        {"product": {"a": list(range(40)), "b": list(range(40))}},
        "steps.a.for_each.product",
        "has 1600 entries",
    ),
    ({"zip": {"a": [1, 2], "b": [1]}}, "steps.a.for_each.zip", "a has 2, b has 1"),
    ({"zip": {"a": {"x": 1}, "b": {"y": 1}}}, "steps.a.for_each.zip.b", "this lacks x"),
    ({"zip": {"a": {"x": 1}, "b": {"x": 1, "y": 1}}}, "steps.a.for_each.zip.b", "this has y besides"),
    ({"zip": []}, "steps.a.for_each.zip", "takes a mapping"),
    ({"product": {"a": []}}, "steps.a.for_each.product.a", "has no entries"),
    ({"product": {"a": 3}}, "steps.a.for_each.product.a", "no list and no table"),
    ("$key", "steps.a.for_each", "$key means something only"),
    ("$step.gone[*]", "steps.a.for_each", "no step 'gone'"),
    ("a text", "steps.a.for_each", "is not a list, a table"),
]


@pytest.mark.parametrize(("for_each", "path", "message"), WRONG)
def test_entries_that_cannot_be_are_refused(for_each: Any, path: str, message: str) -> None:
    assert message in fault(for_each, path)


def test_what_else_is_wrong_with_the_step_is_told_too() -> None:
    found = findings(
        steps(a={"task": "text.template", "for_each": [], "arguments": {"temple": "$item.x", "values": {}}})
    )
    assert set(found) == {"steps.a.for_each", "steps.a.arguments", "steps.a.arguments.temple"}


def test_the_number_of_all_actions_is_limited() -> None:
    written = {f"s{n}": many(list(range(1000))) for n in range(11)}
    assert "more than 10000 steps" in findings(steps(**written))["steps"]


# Reading members.


def test_all_members_are_gathered_in_the_order_of_the_entries() -> None:
    first = {**DIGIT, "for_each": {"z": "a one", "a": "a two"}, "arguments": {"prompt": "$item"}}
    gather = {"task": "video.concat", "arguments": {"clips": "$step.a[*]"}}
    frames = {"task": "video.concat", "arguments": {"clips": "$step.a[*].last_frame"}}
    graph = expanded(steps(a=first, b=gather, c=frames))
    assert arguments(graph, "b")["clips"] == [Input(action="a[z]"), Input(action="a[a]")]
    assert arguments(graph, "c")["clips"][1] == Input(action="a[a]", field="last_frame")


def test_one_member_is_read_by_name_or_number() -> None:
    first = {**DIGIT, "for_each": ["one", "two"], "arguments": {"prompt": "$item"}}
    by_name = {"task": "picture.resize", "arguments": {"clip": "$step.a[two]", "width": 16}}
    by_number = {"task": "picture.resize", "arguments": {"clip": "$step.a[1]", "width": 16}}
    graph = expanded(steps(a=first, b=by_name, c=by_number))
    assert arguments(graph, "b")["clip"] == arguments(graph, "c")["clip"] == Input(action="a[two]")


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("$step.a", "is a for_each: say [*] for all, or one of [one, two]"),
        ("$step.a[three]", "no member of step 'a' 'three' (there is one, two)"),
        ("$step.a[2]", "no member of step 'a' '2'"),
        ("$step.a[one].lenght", "no part 'lenght'"),
        ("$step.a[*].lenght", "no part 'lenght'"),
    ],
)
def test_a_member_that_is_not_there_is_found(reference: str, message: str) -> None:
    first = {**DIGIT, "for_each": ["one", "two"], "arguments": {"prompt": "$item"}}
    reader = {"task": "video.concat", "arguments": {"clips": [reference]}}
    found = findings(steps(a=first, b=reader))
    assert list(found) == ["steps.b.arguments.clips[0]"]
    assert message in found["steps.b.arguments.clips[0]"]
