"""The mutation test: each part of a key alone is a miss, each thing that is no part alone is a hit."""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import restrike.workflow.keying as keying
from restrike.cards.adapters import Adapter
from restrike.cards.identity import WeightStamp
from restrike.keys import Digest, digest
from restrike.workflow.expansion import Machine, expand
from restrike.workflow.graph import Action, Graph
from restrike.workflow.keying import step_key
from restrike.workflow.operations.generate import Generate
from restrike.workflow.operations.task import TaskCall
from restrike.workflow.source import read_text, read_tree
from restrike.workflow.tasks.registry import Tasks

from .lab import OWN_TASKS, Lab, computed, files

TASKS = Tasks((OWN_TASKS,))
CASES = 12  # of each mutation; 48 mutations, so more than 500 in all

Tree = dict[str, Any]
Random = random.Random


@dataclass(frozen=True)
class Changed:
    """What a mutation makes of a workflow: another tree, another machine, or another graph."""

    tree: Tree
    precision: str | None = None
    regraph: Callable[[Graph], Graph] = lambda graph: graph


def workflow(rng: Random) -> Tree:
    """A workflow with every kind of argument; its last step `shown` reads all others."""
    return {
        "name": f"flow-{rng.randrange(100)}",
        "description": "a flow",
        "seed": rng.randrange(1000),
        "variables": {"prompt": f"a {rng.choice(['one', 'two', 'six'])}", "unused": 1},
        "steps": {
            "base": {
                "generate": "digits",
                "arguments": {
                    "prompt": "$var.prompt",
                    "steps": rng.randrange(2, 20),
                    "guidance": rng.choice([1.5, 2.0, 4.0]),
                    "solver": rng.choice(["euler", "unipc"]),
                    "shift": rng.choice([1.0, 3.0]),
                    "count": rng.choice([1, 2]),
                },
                "result": {"container": "png", "folder": "pictures"},
            },
            "photo": {"task": "own.show", "arguments": {"value": "$asset.photo.txt"}},
            "shown": {
                "task": "own.show",
                "arguments": {
                    "value": {
                        "integer": rng.randrange(2, 99),
                        "number": rng.uniform(1.1, 9.9),
                        "text": f"text {rng.randrange(99)}",
                        "flag": rng.choice([True, False]),
                        "nothing": None,
                        "list": [rng.randrange(10), 10, 11],
                        "table": {"x": rng.randrange(9), "y": 2},
                        "base": "$step.base",
                        "photo": "$step.photo",
                    }
                },
            },
            "rolled": {"task": "own.random", "arguments": {"log": os.devnull}, "seed": rng.randrange(99)},
        },
        "reuse": {"scope": "workspace"},
    }


def at(*path: str | int) -> Callable[[Callable[[Any], Any]], Callable[[Tree, Random], Changed]]:
    """A mutation of what stands at a place."""

    def make(change: Callable[[Any], Any]) -> Callable[[Tree, Random], Changed]:
        def mutate(tree: Tree, rng: Random) -> Changed:
            place: Any = tree
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] = change(place[path[-1]])
            return Changed(tree)

        return mutate

    return make


ADAPTER = Adapter("style.safetensors", 0.5, digest="1" * 64)
VALUE = ("steps", "shown", "arguments", "value")
BASE = ("steps", "base", "arguments")


def operation_of(step: str, **parts: Any) -> Callable[[Tree, Random], Changed]:
    """A mutation of what the machine has: code, weights."""

    def regraph(graph: Graph) -> Graph:
        def swapped(action: Action) -> Action:
            if action.step != step:
                return action
            operation = action.operation
            if isinstance(operation, TaskCall):
                return replace(action, operation=replace(operation, task=replace(operation.task, **parts)))
            assert isinstance(operation, Generate)
            twin = replace(operation)
            twin.__dict__.update(parts)
            return replace(action, operation=twin)

        return replace(graph, actions=tuple(map(swapped, graph.actions)))

    return lambda tree, rng: Changed(tree, regraph=regraph)


def generate_epoch(tree: Tree, rng: Random) -> Changed:
    class Later(Generate):
        def identity(self) -> Mapping[str, object]:
            return {**super().identity(), "epoch": "2"}

    def regraph(graph: Graph) -> Graph:
        later = {
            action.id: Later(**{n: getattr(action.operation, n) for n in ("card", "device", "precision")})
            for action in graph.actions
            if isinstance(action.operation, Generate)
        }
        return replace(
            graph, actions=tuple(replace(a, operation=later.get(a.id, a.operation)) for a in graph.actions)
        )

    return Changed(tree, regraph=regraph)


PARTS: dict[str, tuple[str, Callable[[Tree, Random], Changed]]] = {
    "an integer": ("shown", at(*VALUE, "integer")(lambda n: n + 1)),
    "an integer as a number": ("shown", at(*VALUE, "integer")(float)),
    "an integer as a text": ("shown", at(*VALUE, "integer")(str)),
    "a number": ("shown", at(*VALUE, "number")(lambda x: x * (1 + 2**-52))),
    "a number as a text": ("shown", at(*VALUE, "number")(str)),
    "a text": ("shown", at(*VALUE, "text")(lambda text: text + " ")),
    "a flag": ("shown", at(*VALUE, "flag")(lambda flag: not flag)),
    "a flag as an integer": ("shown", at(*VALUE, "flag")(int)),
    "a flag as a text": ("shown", at(*VALUE, "flag")(lambda flag: str(flag).lower())),
    "nothing as a text": ("shown", at(*VALUE, "nothing")(lambda _: "null")),
    "nothing as an empty text": ("shown", at(*VALUE, "nothing")(lambda _: "")),
    "nothing as zero": ("shown", at(*VALUE, "nothing")(lambda _: 0)),
    "the order of a list": ("shown", at(*VALUE, "list")(lambda items: items[::-1])),
    "a longer list": ("shown", at(*VALUE, "list")(lambda items: [*items, 12])),
    "a list in a list": ("shown", at(*VALUE, "list")(lambda items: [items])),
    "a name in a table": ("shown", at(*VALUE, "table")(lambda t: {"z": t["x"], "y": t["y"]})),
    "a value in a table": ("shown", at(*VALUE, "table", "x")(lambda x: x + 1)),
    "an argument left out": ("shown", at(*VALUE)(lambda v: {k: e for k, e in v.items() if k != "nothing"})),
    "a prompt": ("base", at("variables", "prompt")(lambda text: text + "!")),
    "the number of steps": ("base", at(*BASE, "steps")(lambda n: n + 1)),
    "the guidance": ("base", at(*BASE, "guidance")(lambda g: g + 0.25)),
    "the solver": ("base", at(*BASE, "solver")(lambda s: "sde" if s == "euler" else "euler")),
    "a scheduler option": ("base", at(*BASE, "shift")(lambda s: s + 0.5)),
    "the count": ("base", at(*BASE, "count")(lambda n: n + 1)),
    "a default said otherwise": ("base", at(*BASE)(lambda a: {**a, "guidance_mode": "cfg"})),
    "the seed": ("base", at("seed")(lambda n: n + 1)),
    "the seed of a step": ("rolled", at("steps", "rolled", "seed")(lambda n: n + 1)),
    "the precision": ("base", lambda tree, rng: Changed(tree, precision="bfloat16")),
    "the epoch of a task": ("shown", operation_of("shown", epoch="2")),
    "the epoch of generations": ("base", generate_epoch),
    "the source of a task": ("shown", operation_of("shown", sources=(digest("t", "1", 0),))),
    "the weights": ("base", operation_of("base", stamp=WeightStamp(weights="another", versions={}))),
    "an adapter": ("base", operation_of("base", settled=(ADAPTER,))),
    "which task": ("photo", at("steps", "photo", "task")(lambda _: "own.keep_any")),
    "the scope": ("shown", at("reuse", "scope")(lambda _: "shared")),
    "an exact match": ("shown", at("reuse")(lambda reuse: {**reuse, "match": "exact"})),
    "the content of an asset": (
        "photo",
        at("steps", "photo", "arguments", "value")(lambda _: "$asset.other.txt"),
    ),
    "a part of an input": ("shown", at(*VALUE, "photo")(lambda _: "$step.base")),
}


def renamed_steps(tree: Tree, rng: Random) -> Changed:
    def moved(entry: Any) -> Any:
        if isinstance(entry, str) and entry.startswith("$step."):
            return entry.replace("$step.", "$step.new_")
        if isinstance(entry, dict):
            return {name: moved(value) for name, value in entry.items()}
        return [moved(value) for value in entry] if isinstance(entry, list) else entry

    return Changed(
        {**tree, "steps": {f"new_{n}": moved(step) for n, step in reversed(tree["steps"].items())}}
    )


def shuffled(entry: Any, rng: Random) -> Any:
    if isinstance(entry, dict):
        names = list(entry)
        rng.shuffle(names)
        return {name: shuffled(entry[name], rng) for name in names}
    return [shuffled(value, rng) for value in entry] if isinstance(entry, list) else entry


def inlined_variable(tree: Tree, rng: Random) -> Changed:
    tree["steps"]["base"]["arguments"]["prompt"] = tree["variables"].pop("prompt")
    return Changed(tree)


def nested(tree: Tree, rng: Random) -> Changed:
    inner = {k: v for k, v in tree.items() if k != "reuse"}
    return Changed({"seed": tree["seed"], "reuse": tree["reuse"], "steps": {"inner": {"workflow": inner}}})


OTHERS: dict[str, Callable[[Tree, Random], Changed]] = {
    "the workflow's name": at("name")(lambda _: "another"),
    "the description": at("description")(lambda _: "other words"),
    "an unused variable": at("variables", "unused")(lambda _: 2),
    "the names and order of steps": renamed_steps,
    "the order of all mappings": lambda tree, rng: Changed(shuffled(tree, rng)),
    "a variable written out": inlined_variable,
    "a workflow around it": nested,
    "the container": at("steps", "base", "result")(lambda r: {**r, "container": "webp"}),
    "the folder": at("steps", "base", "result")(lambda r: {**r, "folder": "elsewhere"}),
    "the file's name": at("steps", "base", "result")(lambda r: {**r, "name": "other"}),
    "whether it is saved": at("steps", "base", "result")(lambda r: {**r, "save": False}),
    "no result block": at("steps", "base")(lambda s: {k: v for k, v in s.items() if k != "result"}),
    "a default written out": at(*BASE)(lambda a: {**a, "width": 8, "height": 8, "guidance_mode": "batched"}),
    "an asset under another name": at("steps", "photo", "arguments", "value")(lambda _: "$asset.copy.txt"),
    "one more step": at("steps")(lambda s: {"extra": {"task": "own.list", "arguments": {"count": 1}}, **s}),
}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with assets: two of one content, one of another."""
    folder = tmp_path_factory.mktemp("workspace")
    (folder / "assets").mkdir()
    for name, text in (("photo", "same"), ("copy", "same"), ("other", "different")):
        (folder / "assets" / f"{name}.txt").write_text(text)
    return folder


def keys_of(changed: Changed, workspace: Path) -> dict[str, Digest]:
    """The key of each step by its kind of work, as if each gave a value that its key alone decides."""
    machine = Machine(tasks=TASKS, device="cpu", precision=changed.precision)
    graph = changed.regraph(expand(read_tree(changed.tree), {}, workspace, machine))
    values: dict[str, Digest] = {}
    for action in graph.actions:
        key = step_key(graph, action, values).key
        values[action.id] = digest("stand-in", "1", key.digest.hex)
    return values


def one(values: dict[str, Digest], step: str) -> Digest:
    """The stand-in of a step, wherever it moved."""
    (found,) = (value for name, value in values.items() if name.endswith(step))
    return found


def tally(workspace: Path, cases: int = CASES) -> tuple[int, list[str]]:
    """How many cases were tried, and what went wrong in which."""
    wrong: list[str] = []
    tried = 0
    for number in range(cases):
        tree = workflow(Random(number))
        before = keys_of(Changed(copy.deepcopy(tree)), workspace)
        for name, (step, mutate) in PARTS.items():
            after = keys_of(mutate(copy.deepcopy(tree), Random(number)), workspace)
            tried += 1
            if one(before, step) == one(after, step):
                wrong.append(f"hit although changed: {name}, case {number}")
        for name, mutate in OTHERS.items():
            after = keys_of(mutate(copy.deepcopy(tree), Random(number)), workspace)
            tried += 1
            if any(one(before, step) != one(after, step) for step in ("base", "photo", "shown", "rolled")):
                wrong.append(f"miss although equal: {name}, case {number}")
    return tried, wrong


def test_each_part_is_a_miss_and_nothing_else_is(workspace: Path) -> None:
    tried, wrong = tally(workspace)
    assert wrong == []
    assert tried >= 500


@pytest.mark.parametrize("part", ["seed", "scope", "machine", "operation", "arguments"])
def test_a_key_that_lacks_a_part_is_found(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """The negative control: the same test sees the fault."""
    whole = keying._parts

    def lacking(*arguments: Any) -> dict[str, object]:
        return {name: value for name, value in whole(*arguments).items() if name != part}

    monkeypatch.setattr(keying, "_parts", lacking)
    _, wrong = tally(workspace, cases=1)
    assert any(line.startswith("hit although changed") for line in wrong)


def test_a_key_with_a_name_in_it_is_found(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = keying._parts

    def burdened(graph: Graph, action: Action, value: Any) -> dict[str, object]:
        return {**whole(graph, action, value), "name": action.id}

    monkeypatch.setattr(keying, "_parts", burdened)
    _, wrong = tally(workspace, cases=1)
    assert any("miss although equal: the names" in line for line in wrong)


def test_comments_and_notation_are_no_part(workspace: Path) -> None:
    plain = "seed: 3\nsteps: {a: {task: own.show, arguments: {value: {x: 1, y: [true, 2.0]}}}}\n"
    other = """
# a comment
"seed": 3       # another
steps:
  a:
    arguments:
      value:
        "y": [true, 2.0]
        'x': 1
    task: "own.show"
"""
    machine = Machine(tasks=TASKS, device="cpu")
    graphs = [expand(read_text(text), {}, workspace, machine) for text in (plain, other)]
    first, second = (step_key(graph, graph.actions[0], {}).key for graph in graphs)
    assert first == second


def test_a_sample_end_to_end(lab: Lab) -> None:
    """What the keys say, the runs do: the bytes of a hit are those of computing it."""
    rng = Random(1)
    assets = lab.root / lab.workspace / "assets"
    assets.mkdir(parents=True)
    for name, text in (("photo", "same"), ("copy", "same"), ("other", "different")):
        (assets / f"{name}.txt").write_text(text)
    tree = workflow(rng)
    tree["steps"]["base"]["arguments"]["steps"] = 2
    lab.run(copy.deepcopy(tree))
    for name in ("a text", "the guidance", "the seed of a step", "the content of an asset"):
        step, mutate = PARTS[name]
        assert step in computed(lab.run(mutate(copy.deepcopy(tree), rng).tree)), name
    for name, mutate in OTHERS.items():
        changed = mutate(copy.deepcopy(tree), rng).tree
        reused = lab.run(changed)
        assert computed(reused) <= {"extra"}, name
        fresh = lab.run(changed, reuse=False)
        assert files(lab, reused) == files(lab, fresh), name
