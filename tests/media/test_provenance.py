"""Provenance reads back exactly, has one text, and a stranger's text can do nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restrike.errors import Refused
from restrike.media import Provenance
from restrike.media.provenance import MAX_TEXT_BYTES, parse

from .clips import provenance_with

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def with_arguments(arguments: Any) -> Provenance:
    return Provenance(card="c", weights="w", arguments=arguments, seed=0, item=0, versions={})


@given(st.dictionaries(st.text(), JSON_VALUES, max_size=5))
def test_any_json_arguments_read_back_exactly(arguments: dict[str, Any]) -> None:
    text = with_arguments(arguments).to_json()
    assert text.isascii()
    back = parse(text)
    assert back is not None
    # repr tells 1 from 1.0 from True, and 0.0 from -0.0; equality does not.
    assert repr(back.arguments) == repr(dict(sorted_deep(arguments)))
    assert back.to_json() == text


def sorted_deep(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: sorted_deep(value[key]) for key in sorted(value)}
    return [sorted_deep(item) for item in value] if isinstance(value, list) else value


def test_the_order_of_arguments_does_not_change_the_text() -> None:
    assert with_arguments({"a": 1, "b": 2}).to_json() == with_arguments({"b": 2, "a": 1}).to_json()


def test_a_later_change_of_the_callers_mapping_is_not_seen() -> None:
    arguments = {"size": [64, 64]}
    provenance = with_arguments(arguments)
    arguments["size"].append(3)
    assert provenance.arguments == {"size": [64, 64]}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"guidance": float("nan")}, "arguments.guidance is nan"),
        ({"size": [1, float("inf")]}, r"arguments.size\[1\] is inf"),
        ({"image": object()}, "arguments.image is object"),
        ({"big": 2**70}, "arguments.big is"),
        ({1: "x"}, "a key of arguments must be text"),
        ("prompt", "arguments must be a mapping"),
        ({"prompt": "x" * MAX_TEXT_BYTES}, "shorten argument 'prompt'"),
    ],
)
def test_what_json_cannot_hold_is_refused_by_path(arguments: Any, named: str) -> None:
    with pytest.raises(Refused, match=named):
        with_arguments(arguments)


def test_a_cycle_is_refused() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(Refused, match="nested deeper"):
        with_arguments({"loop": cycle})


@pytest.mark.parametrize("seed", [-1, 2**53, True, 1.0, "7"])
def test_a_seed_that_is_not_one_is_refused(seed: Any) -> None:
    with pytest.raises(Refused, match="seed must be a whole number"):
        Provenance(card="c", weights="w", arguments={}, seed=seed, item=0, versions={})


@pytest.mark.parametrize("text", ["", "hello", '{"prompt": "a cat"}', '{"restrike": 1}', "parameters: 7"])
def test_the_notes_of_other_programs_are_not_ours(text: str) -> None:
    assert parse(text) is None


def edited(**changes: Any) -> str:
    body = json.loads(provenance_with().to_json())["restrike"] | changes
    return '{"restrike":' + json.dumps({k: v for k, v in body.items() if v is not ...}) + "}"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (provenance_with().to_json()[:-40], "torn"),
        (provenance_with().to_json() + "x", "torn"),
        (edited(schema=2), "schema 2, this restrike reads schema 1"),
        (edited(seed=...), "missing or unknown: seed"),
        (edited(run="rm -rf /"), "missing or unknown: run"),
        (edited(arguments=[1]), "arguments must be a mapping"),
        (edited(versions={"torch": 2}), "versions.torch must be text"),
        (edited(item=-1), "item must be"),
        (edited(arguments={"a": float("nan")}), "NaN is not a number"),
        ('{"restrike":{' + '"a":[' * 100_000, "torn"),
        ('{"restrike":{"seed":' + "9" * 10_000 + "}}", "torn"),
        ('{"restrike":{"a":"' + "x" * MAX_TEXT_BYTES + '"}}', "at most"),
    ],
)
def test_a_torn_or_hostile_provenance_is_refused(text: str, named: str) -> None:
    # `json.dumps` leaves a space after its brace; ours has none.
    with pytest.raises(Refused, match=named) as failure:
        parse(text.replace('{"restrike":{ ', '{"restrike":{'))
    assert "\n" not in failure.value.message
