from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restrike.workflow.definition import VariableSpec
from restrike.workflow.findings import Findings
from restrike.workflow.variables import checked, from_texts, specs_of

from .samples import arguments, expanded, findings, keep

PROMPT = {"generate": "digits", "arguments": {"prompt": "$var.x"}}
STEPS = {"generate": "digits", "arguments": {"prompt": "a one", "steps": "$var.x"}}


def kept(default: Any) -> dict[str, Any]:
    """A workflow with one variable `x` that takes its value on."""
    return {"seed": 1, "variables": {"x": default}, "steps": {"a": keep("$var.x")}}


def value(default: Any, /, **given: Any) -> Any:
    return arguments(expanded(kept(default), given), "a")["value"]


def fault(default: Any, /, **given: Any) -> str:
    found = findings(kept(default), given)
    assert list(found) == ["variables.x"]
    return found["variables.x"]


# Types.


@pytest.mark.parametrize("default", ["a text", 4, 2.5, True, [1, "a"], {"a": 1}])
def test_a_default_gives_the_value_and_the_type(default: Any) -> None:
    assert value(default) == default
    assert type(value(default)) is type(default)


READ = [
    (4, "4", 4),
    (4, " -7 ", -7),
    (4, 4.0, 4),
    (2.5, "4", 4.0),
    (2.5, "1e-3", 0.001),
    (2.5, 3, 3),
    (True, "false", False),
    (False, "True", True),
    ("a", "4", "4"),
    ("a", 4, "4"),
    ([1], "[1, 2]", [1, 2]),
    ({"a": 1}, '{"b": 2}', {"b": 2}),
]


@pytest.mark.parametrize(("default", "given", "read"), READ)
def test_a_text_is_read_as_the_type_of_its_variable(default: Any, given: Any, read: Any) -> None:
    assert value(default, x=given) == read
    assert type(value(default, x=given)) is type(read)


REFUSED = [
    (4, "four", "'four' is not an integer"),
    (4, "4.5", "'4.5' is not an integer"),
    (4, 4.5, "4.5 is not an integer"),
    (4, True, "True is not an integer"),
    (2.5, "much", "'much' is not a number"),
    (2.5, False, "False is not a number"),
    (True, "yes", "'yes' is not true or false"),
    (True, 1, "1 is not true or false"),
    ("a", [1], "[1] is not a text"),
    ("a", True, "True is not a text"),
    ([1], "a", "'a' is not a list"),
    ({"a": 1}, [1], "[1] is not a table"),
    (4, None, "is null, and the variable is not optional; it is an integer"),
]


@pytest.mark.parametrize(("default", "given", "message"), REFUSED)
def test_a_value_of_another_type_is_refused_at_the_variable(default: Any, given: Any, message: str) -> None:
    assert fault(default, x=given) == message


def test_a_null_default_takes_any_value_and_stays_null() -> None:
    assert value(None) is None
    assert value(None, x=[1, {"a": 2}]) == [1, {"a": 2}]
    assert value(None, x="4") == "4"
    assert value({"type": "integer", "default": None}) is None
    assert value({"type": "integer", "default": None}, x="4") == 4


def test_a_null_argument_is_the_cards_default() -> None:
    written = {"seed": 1, "variables": {"x": None}, "steps": {"a": STEPS}}
    assert arguments(expanded(written), "a")["steps"] == 8
    assert arguments(expanded(written, {"x": 3}), "a")["steps"] == 3


def test_a_variable_without_a_default_must_be_given() -> None:
    required = {"type": "integer", "minimum": 1}
    assert "give one: -v x=" in fault(required)
    assert value(required, x="3") == 3


def test_a_table_that_looks_like_a_spec_is_written_as_a_default() -> None:
    table = {"default": {"type": "a", "default": "b"}}
    assert value(table) == {"type": "a", "default": "b"}


def test_texts_of_a_command_line_are_json_only_where_any_type_is_allowed() -> None:
    specs = specs_of({"any": None, "text": "a", "list": [1]}, Findings())
    given = {"any": "[1]", "text": "007", "list": "[1]", "other": "3"}
    assert from_texts(given, specs) == {"any": [1], "text": "007", "list": "[1]", "other": "3"}
    assert from_texts({"any": "a word"}, specs) == {"any": "a word"}


# Limits.

LIMITED = {"default": 8, "minimum": 4, "maximum": 40, "multiple_of": 4}


def test_values_within_the_limits_are_taken() -> None:
    assert [value(LIMITED, x=x) for x in (4, "40", 12.0)] == [4, 40, 12]
    assert value({"default": 0.5, "multiple_of": 0.1}, x="0.3") == 0.3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (0, "0 is below the minimum 4"),
        (44, "44 is above the maximum 40"),
        (13, "13 is not a multiple of 4; the nearest is 12"),
        ("15", "15 is not a multiple of 4; the nearest is 16"),
    ],
)
def test_values_beyond_the_limits_are_refused(given: Any, message: str) -> None:
    assert fault(LIMITED, x=given) == message


def test_not_a_number_is_within_no_limits() -> None:
    assert "is below the minimum" in fault({"default": 1.5, "minimum": 0}, x=float("nan"))
    assert "is not a multiple" in fault({"default": 1.5, "multiple_of": 0.5}, x="inf")


@given(st.integers(-1000, 1000), st.integers(1, 50))
def test_the_nearest_that_is_told_is_taken(given: int, grid: int) -> None:
    spec = VariableSpec(type="integer", default=0, multiple_of=grid)
    try:
        assert checked(given, spec) % grid == 0
    except ValueError as error:
        nearest = int(str(error).rpartition(" ")[2])
        assert checked(nearest, spec) == nearest
        assert abs(nearest - given) <= grid / 2


def test_choices_are_the_only_values() -> None:
    spec = {"choices": ["low", "high"], "default": "low"}
    assert value(spec, x="high") == "high"
    assert fault(spec, x="mid") == '\'mid\' is not one of "low", "high"'
    assert "not one of 1, 2" in fault({"choices": [1, 2], "default": 1}, x="3")


WRONG_SPECS = {
    "variables.x.default": [
        {"type": "integer", "default": "four"},
        {"default": 3, "multiple_of": 2},
        {"default": 1, "minimum": 2},
        {"default": "c", "choices": ["a", "b"]},
    ],
    "variables.x.minimum": [
        {"type": "text", "minimum": 3, "default": "a"},
        {"default": 1, "minimum": 3, "maximum": 2},
    ],
    "variables.x.choices[1]": [{"type": "integer", "choices": [1, "b"]}],
    "variables.x.tpye": [{"default": 1, "tpye": "text"}],
    "variables.x.type": [{"type": "int"}],
    "variables.x.multiple_of": [{"default": 1, "multiple_of": 0}],
}


@pytest.mark.parametrize("path", WRONG_SPECS)
def test_a_spec_that_contradicts_itself_is_found_where_it_does(path: str) -> None:
    for spec in WRONG_SPECS[path]:
        assert list(findings(kept(spec))) == [path]


# Names.


def test_a_value_for_no_variable_is_named_with_the_nearest() -> None:
    found = findings(
        {"seed": 1, "variables": {"prompt": "a"}, "steps": {"a": STEPS | {"arguments": {"prompt": "six"}}}},
        {"promt": 1},
    )
    assert found == {"variables.promt": "no variable 'promt'; did you mean 'prompt'? (there is prompt)"}


def test_an_undeclared_variable_is_found_at_its_place() -> None:
    found = findings({"seed": 1, "variables": {"y": 1}, "steps": {"a": PROMPT}})
    assert found == {"steps.a.arguments.prompt": "no variable 'x' (there is y)"}


# Files.


def test_a_value_may_name_a_stored_file_or_prompt(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "cat.png").write_bytes(b"cat")
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "castle.txt").write_text("a castle\n")
    written = kept("$asset.cat.png")
    graph = expanded(written, workspace=tmp_path)
    assert arguments(graph, "a")["value"].shown == "$asset.cat.png"
    assert graph.variables == {"x": "$asset.cat.png"}
    found = expanded(kept("a text"), {"x": "$prompt.castle"}, tmp_path)
    assert arguments(found, "a")["value"] == "a castle"
    assert arguments(expanded(kept("a text"), {"x": "$$prompt.x"}), "a")["value"] == "$prompt.x"


def test_a_value_that_names_nothing_is_refused(tmp_path: Path) -> None:
    assert "no asset 'gone.png'" in fault("$asset.gone.png")
    assert "'dog.png' is not a file" in fault({"type": "file"}, x="dog.png")
    assert "is not an integer" in fault(3, x="$asset.gone.png")
    assert "is no reference" in fault("a text", x="$5")
    assert "no variable" in fault("a text", x="$var.y")
