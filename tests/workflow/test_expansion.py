from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restrike.workflow.graph import FileInput, Input
from restrike.workflow.operations.generate import Generate

from .samples import DIGIT, arguments, expanded, findings, ids, keep, keys_of, only, steps


def resized(clip: Any, **more: Any) -> dict[str, Any]:
    return {"task": "picture.resize", "arguments": {"clip": clip, "width": 16}, **more}


# Generate steps.


def test_the_arguments_of_a_generation_are_complete() -> None:
    action = only(expanded(steps(a=DIGIT)))
    assert action.id == action.step == "a"
    assert action.operation.label == "generate digits"
    assert action.saves
    assert action.arguments["prompt"] == "a seven"
    assert action.arguments["steps"] == 8
    assert action.arguments["count"] == 1


DEFAULTS: dict[str, Any] = {
    "steps": 8,
    "guidance": 2,
    "guidance_2": 2.0,
    "guidance_mode": "batched",
    "guidance_interval": [0, 1],
    "guidance_every": 1,
    "width": 8,
    "height": 8,
    "frames": 1,
    "fps": 8,
    "solver": "euler",
    "shift": 1,
    "negative_prompt": "",
    "sigmas": None,
    "image": None,
    "count": 1,
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_saying_a_default_changes_no_key(name: str) -> None:
    said = {**DIGIT, "arguments": {"prompt": "a seven", name: DEFAULTS[name]}}
    assert keys_of(expanded(steps(a=said))) == keys_of(expanded(steps(a=DIGIT)))


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "steps.a.arguments.steps": ({"steps": 5000}, "steps 5000: the weights of 'digits'"),
    "steps.a.arguments.width": ({"width": 9}, "width 9: card 'digits' takes only 8"),
    "steps.a.arguments.guidance": ({"guidance": "much"}, "guidance 'much' is not a number"),
    "steps.a.arguments.solver": ({"solver": "heun"}, "euler, sde, unipc"),
    "steps.a.arguments.count": ({"count": 0}, "is not a whole number from 1"),
    "steps.a.arguments.seed": ({"seed": 3}, "beside its arguments"),
    "steps.a.arguments.stepz": ({"stepz": 3}, "no argument 'stepz'; did you mean 'steps'?"),
    "steps.a.arguments.image": ({"image": "cat.png"}, "write $asset.PATH or $step.NAME"),
    "steps.a.arguments.prompt": ({"prompt": "a cat"}, "prompt 'a cat' names no digit; card 'digits'"),
    "steps.a.arguments.negative_prompt": ({"negative_prompt": "a cat"}, "negative_prompt 'a cat' names no"),
    "steps.a.arguments.shift": ({"shift": 3.0, "sigmas": [1.0, 0.5]}, "no effect, since sigmas are given"),
    "steps.a.arguments.call": ({"call": {}}, "no argument 'call'"),
}


@pytest.mark.parametrize("path", WRONG)
def test_each_wrong_argument_is_found_at_its_place(path: str) -> None:
    given, message = WRONG[path]
    found = findings(steps(a={**DIGIT, "arguments": {"prompt": "a seven", **given}}))
    assert list(found) == [path]
    assert message in found[path]


def test_an_empty_prompt_is_found_once() -> None:
    found = findings(steps(a={**DIGIT, "arguments": {"prompt": " "}}))
    assert found == {"steps.a.arguments.prompt": "prompt is empty; say what to make"}


def test_all_wrong_arguments_are_found_at_once() -> None:
    given = {"prompt": 3, "steps": "many", "width": 9, "solver": "heun", "what": 1}
    found = findings(steps(a={"generate": "digits", "arguments": given}))
    assert set(found) == {f"steps.a.arguments.{name}" for name in given}


def test_what_comes_from_another_step_is_checked_later_and_hides_nothing() -> None:
    found = findings(
        steps(a=keep(3), b={**DIGIT, "arguments": {"prompt": "$step.a", "steps": "$step.a", "width": 9}})
    )
    assert list(found) == ["steps.b.arguments.width"]


def test_contradictions_with_what_is_not_known_are_not_told() -> None:
    given = {"prompt": "a one", "guidance": "$step.a", "negative_prompt": "a two", "sigmas": [1.0, 0.5]}
    action = expanded(steps(a=keep(3), b={**DIGIT, "arguments": given})).action("b")
    assert action.arguments["guidance"] == action.arguments["guidance_2"] == Input(action="a")
    assert action.arguments["steps"] == 2


def test_a_card_that_is_not_there_or_has_no_weights_is_found() -> None:
    found = findings(steps(a={**DIGIT, "generate": "digts"}, b={**DIGIT, "generate": "wan"}))
    assert "did you mean 'digits'" in found["steps.a.generate"]
    assert "needs weights" in found["steps.b.generate"]


def test_a_prompt_that_is_not_said_is_missing() -> None:
    found = findings(steps(a={"generate": "digits"}, b={"generate": "digits", "arguments": {"prompt": None}}))
    assert found["steps.a.arguments"].startswith("prompt is missing")
    assert found["steps.b.arguments.prompt"].startswith("prompt is missing")


def test_steps_of_one_card_share_the_look_at_its_weights() -> None:
    graph = expanded(steps(a=DIGIT, b={**DIGIT, "arguments": {"prompt": "a one"}}))
    one, other = (action.operation for action in graph.actions)
    assert isinstance(one, Generate)
    assert one is other


# Task steps.


def test_the_arguments_of_a_task_are_complete_and_of_its_types() -> None:
    action = expanded(steps(a=DIGIT, b=resized("$step.a"))).action("b")
    assert action.arguments["fit"] == "stretch"
    assert action.arguments["height"] is None
    said = resized("$step.a")
    said["arguments"] = {**said["arguments"], "fit": "stretch", "height": None, "width": 16.0}
    assert keys_of(expanded(steps(a=DIGIT, b=said))) == keys_of(
        expanded(steps(a=DIGIT, b=resized("$step.a")))
    )


def test_wrong_arguments_of_a_task_are_found() -> None:
    step = {"task": "picture.resize", "arguments": {"widht": 3, "width": 0, "fit": "squeeze"}}
    found = findings(steps(a=step))
    assert set(found) == {f"steps.a.arguments{end}" for end in ("", ".widht", ".width", ".fit")}
    assert found["steps.a.arguments"] == "task 'picture.resize' needs the argument 'clip'"
    assert "did you mean 'width'?" in found["steps.a.arguments.widht"]


def test_a_task_that_is_not_there_is_found() -> None:
    assert "did you mean 'text.join'" in findings(steps(a={"task": "text.jion"}))["steps.a.task"]


def test_only_a_task_that_draws_has_a_seed() -> None:
    draw = {"task": "mine.draw"}
    graph = expanded(steps(a=draw, b=keep(1)))
    assert (graph.action("a").seed, graph.action("b").seed) == (7, None)
    found = findings(steps(a={**draw, "arguments": {"seed": 3}}))
    assert "beside its arguments" in found["steps.a.arguments.seed"]


# Reading other steps.


def test_a_step_reads_the_whole_value_a_part_or_an_item() -> None:
    batch = {**DIGIT, "arguments": {"prompt": "a one", "count": 2}}
    graph = expanded(
        steps(
            a=DIGIT,
            b=batch,
            c=keep({"deep": ["$step.a", "$step.a.last_frame", "$step.b[1]", "$step.b[1].width", "$step.b"]}),
        )
    )
    assert arguments(graph, "c")["value"]["deep"] == [
        Input(action="a"),
        Input(action="a", field="last_frame"),
        Input(action="b", item=1),
        Input(action="b", item=1, field="width"),
        Input(action="b"),
    ]


UNREADABLE = {
    "$step.gone": "no step 'gone'; did you mean 'one'?",
    "$step.a.lenght": "no part 'lenght'",
    "$step.a[0]": "gives one value, no list; there is no item 0",
    "$step.a[*]": "gives one value, no list; leave [*] out",
    "$step.a[left]": "has no for_each, so no member 'left'",
    "$step.b[2]": "gives 2 items, 0 to 1; there is no item 2",
    "$step.b.fps": "gives 2 items; say which, as in [0].fps",
    "$step.words.width": "no part 'width' (there is none)",
    "$steps.a": "is no reference",
}


@pytest.mark.parametrize("reference", UNREADABLE)
def test_what_cannot_be_read_is_found(reference: str) -> None:
    batch = {**DIGIT, "arguments": {"prompt": "a one", "count": 2}}
    words = {"task": "text.template", "arguments": {"template": "a", "values": {}}}
    found = findings(steps(a=DIGIT, b=batch, words=words, one=keep(1), z=keep(reference)))
    assert list(found) == ["steps.z.arguments.value"]
    assert UNREADABLE[reference] in found["steps.z.arguments.value"]


def test_parts_that_nobody_knows_beforehand_are_left_to_the_run() -> None:
    assert expanded(steps(a=keep(1), b=keep("$step.a[3].what")))


def test_a_text_that_looks_like_a_reference_can_be_written() -> None:
    assert arguments(expanded(steps(a=keep(["$$var.x", "$$$5", "a $"]))), "a")["value"] == [
        "$var.x",
        "$$5",
        "a $",
    ]


def test_steps_are_ordered_by_data_and_else_as_they_are_written() -> None:
    graph = expanded(steps(z=keep("$step.m"), a=keep(1), m=keep("$step.b"), b=keep(2)))
    assert ids(graph) == ["a", "b", "m", "z"]


def test_every_circle_is_named_by_its_steps_and_hides_no_other_finding() -> None:
    found = findings(
        steps(
            a=keep("$step.b"),
            b=keep("$step.c.x"),
            c=keep(["$step.a"]),
            d=keep("$step.d"),
            e=keep("$step.a"),
            f=keep("$var.gone"),
        )
    )
    assert found == {
        "steps.a": "steps read each other in a circle: a reads b reads c reads a",
        "steps.d": "steps read each other in a circle: d reads d",
        "steps.f.arguments.value": "no variable 'gone' (there is none)",
    }


def test_a_long_line_of_steps_is_no_trouble() -> None:
    line = {"s0": keep(1)} | {f"s{n}": keep(f"$step.s{n - 1}") for n in range(1, 3000)}
    assert ids(expanded(steps(**dict(reversed(line.items())))))[-1] == "s2999"


def test_references_work_wherever_a_value_stands() -> None:
    written = {
        "seed": "$var.seed",
        "variables": {"seed": 5, "card": "digits", "crf": 9, "save": True, "where": "a/b", "list": ["one"]},
        "steps": {
            "a": {
                "generate": "$var.card",
                "for_each": "$var.list",
                "arguments": {"prompt": "$key"},
                "seed": "$var.seed",
                "result": {
                    "save": "$var.save",
                    "container": "webm",
                    "options": {"crf": "$var.crf"},
                    "folder": "$var.where",
                    "name": "$key",
                },
            }
        },
    }
    graph = expanded(written)
    result = only(graph).result
    assert graph.seed == 5
    assert (result.options, result.folder, result.name, result.save) == ({"crf": 9}, "a/b", "one", True)


def test_what_is_needed_beforehand_cannot_come_from_a_step() -> None:
    found = findings(
        steps(
            a=keep("digits"),
            b={"generate": "$step.a", "arguments": {"prompt": "x"}},
            c={**DIGIT, "seed": "$step.a"},
            d={**DIGIT, "result": {"folder": "$step.a"}},
        )
    )
    assert set(found) == {"steps.b.generate", "steps.c.seed", "steps.d.result.folder"}
    assert all("is needed before anything runs" in message for message in found.values())


@pytest.mark.parametrize("name", ["assets", "Prompts"])
def test_a_workflow_is_not_called_as_a_folder_of_the_workspace(name: str) -> None:
    assert list(findings({"name": name, **steps(a=DIGIT)})) == ["name"]


# Keys: what changes none.

PARTS: dict[str, Any] = {
    "base": DIGIT,
    "many": {
        "generate": "digits",
        "for_each": {"l": "a one", "r": "a two"},
        "arguments": {"prompt": "$item"},
    },
    "big": resized("$step.base"),
    "all": {"task": "video.concat", "arguments": {"clips": ["$step.base", "$step.many[l]", "$step.many[r]"]}},
    "bigger": {"task": "picture.resize", "arguments": {"clip": "$step.all", "width": 32, "height": 32}},
}


def renamed(tree: Any, names: dict[str, str]) -> Any:
    if isinstance(tree, dict):
        return {name: renamed(value, names) for name, value in tree.items()}
    if isinstance(tree, list):
        return [renamed(value, names) for value in tree]
    if isinstance(tree, str) and tree.startswith("$step."):
        name = tree.removeprefix("$step.").partition("[")[0]
        return tree.replace(f"$step.{name}", f"$step.{names[name]}", 1)
    return tree


@given(st.permutations(list(PARTS)), st.permutations(["v", "w", "x", "y", "z"]), st.randoms())
def test_renaming_and_reordering_steps_and_keys_changes_no_key(
    order: list[str], new: list[str], shuffle: random.Random
) -> None:
    names = dict(zip(PARTS, new, strict=True))
    moved = {}
    for name in order:
        step = renamed(PARTS[name], names)
        given = list(step["arguments"].items())
        shuffle.shuffle(given)
        moved[names[name]] = {**step, "arguments": dict(given)}
    before = keys_of(expanded(steps(**PARTS)))
    after = keys_of(expanded({"name": "other", "description": "x", **steps(**moved)}))
    assert set(after.values()) == set(before.values())
    assert {names[name] for name in PARTS if name != "many"} <= set(after)


def test_a_seed_and_an_argument_change_the_key() -> None:
    before = keys_of(expanded(steps(a=DIGIT)))
    assert keys_of(expanded({**steps(a=DIGIT), "seed": 8})) != before
    assert keys_of(expanded(steps(a={**DIGIT, "seed": 8}))) == keys_of(
        expanded({**steps(a=DIGIT), "seed": 8})
    )
    assert keys_of(expanded(steps(a={**DIGIT, "arguments": {"prompt": "a eight"}}))) != before


def test_a_result_block_changes_no_key() -> None:
    block = {"container": "webp", "options": {"quality": 3}, "folder": "a", "name": "b"}
    assert keys_of(expanded(steps(a={**DIGIT, "result": block}))) == keys_of(expanded(steps(a=DIGIT)))


# Files.


def test_an_asset_counts_by_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    for name, content in (("a.png", b"1"), ("b.png", b"1"), ("c.png", b"2")):
        (tmp_path / "assets" / name).write_bytes(content)
    found = {
        name: keys_of(expanded(steps(a=keep(f"$asset.{name}.png")), workspace=tmp_path))["a"]
        for name in "abc"
    }
    assert found["a"] == found["b"] != found["c"]
    leaf = arguments(expanded(steps(a=keep("$asset.a.png")), workspace=tmp_path), "a")["value"]
    assert isinstance(leaf, FileInput)
    assert leaf.shown == "$asset.a.png"
