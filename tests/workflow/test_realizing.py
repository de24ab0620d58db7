from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restrike.cards.request import SEED_LIMIT
from restrike.workflow.seeds import derived, drawn
from restrike.workflow.source import read_file, read_tree

from .samples import DIGIT, expanded, keep, keys_of, steps
from .test_nesting import CHILD, write

RANDOM: dict[str, Any] = {
    "variables": {"n": 8, "x": None},
    "steps": {"a": DIGIT, "b": {**DIGIT, "seed": "random"}},
}


def test_drawn_seeds_are_written_down_and_drawn_anew_each_time() -> None:
    graph = expanded(RANDOM)
    assert graph.seed == graph.realized["seed"] == graph.action("a").seed == 1001
    assert graph.realized["steps"]["b"]["seed"] == graph.action("b").seed == 1002
    assert expanded(RANDOM, draw=drawn).seed != expanded(RANDOM, draw=drawn).seed


def test_values_of_variables_are_written_down_as_defaults_of_their_type() -> None:
    graph = expanded(RANDOM, {"n": "4", "x": [1]})
    assert graph.realized["variables"] == {
        "n": {"type": "integer", "default": 4},
        "x": {"type": "any", "default": [1]},
    }
    assert graph.variables == {"n": 4, "x": [1]}


def test_limits_and_words_of_a_variable_stay() -> None:
    spec = {"type": "integer", "minimum": 2, "choices": [2, 3], "description": "how many"}
    graph = expanded({**steps(a=keep("$var.n")), "variables": {"n": spec}}, {"n": 3})
    assert graph.realized["variables"]["n"] == {**spec, "minimum": 2.0, "default": 3}
    assert expanded(dict(graph.realized)).variables == {"n": 3}


def test_running_it_again_is_the_same_although_the_files_have_changed(tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    prompt = tmp_path / "prompts" / "p.txt"
    prompt.write_text("$a one")
    child = write(
        tmp_path / "child.json", {**CHILD, "steps": {**CHILD["steps"], "r": {**DIGIT, "seed": "random"}}}
    )
    run = tmp_path / "first" / "0001"
    run.mkdir(parents=True)
    (run / "a.png").write_bytes(b"old")
    written = {
        "variables": {"p": "$prompt.p"},
        "steps": {
            "child": {"workflow": "child.json", "arguments": {"prompt": "$prompt.p"}, "for_each": ["x", "y"]},
            "var": keep("$var.p"),
            "file": keep("$output.first/latest/a.png"),
        },
    }
    source = read_file(write(tmp_path / "parent.json", written))
    first = expanded(source, workspace=tmp_path)
    kept = json.loads(json.dumps(first.realized))

    prompt.unlink()
    child.unlink()
    newer = tmp_path / "first" / "0002"
    newer.mkdir()
    (newer / "a.png").write_bytes(b"new")
    again = expanded(read_tree(kept), workspace=tmp_path)
    assert keys_of(again) == keys_of(first)
    assert again.seed == first.seed
    assert again.name == first.name
    assert json.loads(json.dumps(again.realized)) == kept


def test_another_seed_takes_the_place_of_the_workflows() -> None:
    graph = expanded(steps(a=DIGIT, b={**DIGIT, "seed": 3}), seed=9)
    assert (graph.action("a").seed, graph.action("b").seed) == (9, 3)
    assert graph.realized["seed"] == 9


def test_a_seed_may_come_from_a_variable() -> None:
    written = {
        "seed": "$var.s",
        "variables": {"s": None},
        "steps": {"a": DIGIT, "b": {**DIGIT, "seed": "$var.s"}},
    }
    drawn_anew = expanded(written)
    assert drawn_anew.seed == drawn_anew.action("b").seed == 1001
    assert expanded(written, {"s": 5}).seed == 5
    random = expanded(written, {"s": "random"})
    assert (random.seed, random.action("b").seed) == (1001, 1002)
    assert random.realized["steps"]["b"]["seed"] == 1002


@pytest.mark.parametrize("value", [-1, 2.5, True, "x", SEED_LIMIT + 1])
def test_a_value_that_is_no_seed_is_found(value: Any) -> None:
    from .samples import findings

    written = {"seed": "$var.s", "variables": {"s": None}, "steps": {"a": DIGIT}}
    assert list(findings(written, {"s": value})) == ["seed"]


@given(st.integers(0, SEED_LIMIT), st.text(), st.text())
def test_derived_seeds_are_within_53_bits_and_differ_by_name_and_seed(
    seed: int, name: str, other: str
) -> None:
    found = derived(seed, name)
    assert 0 <= found <= SEED_LIMIT
    assert found == derived(seed, name)
    assert (found == derived(seed, other)) == (name == other)
    assert found != derived((seed + 1) & SEED_LIMIT, name)
