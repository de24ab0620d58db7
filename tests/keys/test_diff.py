"""The difference of two keys names what changed, no more and no less."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from restrike.keys import Digest, Key, Ref
from restrike.keys.encoding import encode
from restrike.keys.unkeyable import dotted

from .oracle import Adapter, Twin, pairs, places, replaced, scalars, values

BASE: dict[str, Any] = {
    "operation": "generate",
    "weights": [Adapter(strength=0.8), Ref(Digest("1" * 64), of="folder")],
    "arguments": {"steps": 20, "guidance": 4.0, "prompt": "a red circle", "size": [64, 64], "a.b": None},
    "inputs": (Ref(Digest("2" * 64)), np.zeros((1, 2), "<f4"), torch.zeros(2)),
    "seed": 7,
}


def said(after: dict[str, Any]) -> list[str]:
    return list(map(str, Key("step", "1", BASE).diff(Key("step", "1", after))))


@pytest.mark.parametrize(
    ("place", "new", "line"),
    [
        (("arguments", "steps"), 21, "arguments.steps: 20 -> 21"),
        (("arguments", "steps"), 20.0, "arguments.steps: 20 -> 20.0"),
        (("arguments", "steps"), "20", "arguments.steps: 20 -> '20'"),
        (("arguments", "guidance"), 4.5, "arguments.guidance: 4.0 -> 4.5"),
        (("arguments", "size", 1), 96, "arguments.size[1]: 64 -> 96"),
        (("arguments", "size"), [64], "arguments.size[1]: 64 -> absent"),
        (("arguments", "size"), (64, 64), "arguments.size: [64, 64] -> (64, 64,)"),
        (("arguments", "size"), None, "arguments.size: [64, 64] -> None"),
        (("arguments", "a.b"), b"", "arguments[\"a.b\"]: None -> b''"),
        (("weights", 0), Adapter(strength=1.0), "weights[0].strength: 0.8 -> 1.0"),
        (
            ("weights", 0),
            Twin(strength=0.8),
            "weights[0]: adapter {'strength': 0.8} -> twin {'strength': 0.8}",
        ),
        (
            ("weights", 1),
            Ref(Digest("3" * 64), of="folder"),
            "weights[1]: folder 111111111111 -> folder 333333333333",
        ),
        (
            ("weights", 1),
            Ref(Digest("1" * 64), of="file"),
            "weights[1]: folder 111111111111 -> file 111111111111",
        ),
        (("seed",), -0.0, "seed: 7 -> -0.0"),
    ],
)
def test_one_change_is_one_line(place: tuple[str | int, ...], new: Any, line: str) -> None:
    assert said(replaced(BASE, place, new)) == [line]


def test_arrays_are_told_apart_by_dtype_shape_and_content() -> None:
    (line,) = said(replaced(BASE, ("inputs", 1), np.zeros((2, 1), "<f4")))
    assert line.startswith("inputs[1]: numpy <f4 [1, 2] ")
    assert " -> numpy <f4 [2, 1] " in line
    (line,) = said(replaced(BASE, ("inputs", 2), torch.ones(2)))
    assert line.startswith("inputs[2]: torch float32 [2] ")


def test_added_and_removed_parts_and_new_epochs() -> None:
    old = Key("step", "1", {"a": 1, "b": {"c": 2}})
    new = Key("pixels", "2", {"b": {"d": 2}})
    assert list(map(str, old.diff(new))) == [
        "a: 1 -> absent",
        "b.c: 2 -> absent",
        "b.d: absent -> 2",
        "domain: 'step' -> 'pixels'",
        "epoch: '1' -> '2'",
    ]


@given(values, st.data())
@settings(deadline=None, max_examples=300)
def test_the_mutated_place_is_named_exactly(value: Any, data: st.DataObject) -> None:
    parts = {"arguments": value, "seed": 7}
    place = data.draw(st.sampled_from([place for place in places(parts) if place]))
    new = data.draw(scalars)
    old = Key("step", "1", parts)
    found = old.diff(Key("step", "1", replaced(parts, place, new)))
    # A container that is replaced by another is told by its entries: all of them lie at or under the place.
    assert all(difference.path.startswith(dotted(place)) for difference in found)
    assert bool(found) is (old != Key("step", "1", replaced(parts, place, new)))
    for difference in found:
        assert difference.before != difference.after


@given(pairs())
@settings(deadline=None, max_examples=300)
def test_a_diff_is_empty_only_between_equal_keys(pair: tuple[Any, Any]) -> None:
    one, two = (Key("step", "1", {"a": value}) for value in pair)
    there, back = one.diff(two), two.diff(one)
    assert (not there) is (one == two) is (encode(pair[0]) == encode(pair[1]))
    assert [(d.path, d.after, d.before) for d in back] == [(d.path, d.before, d.after) for d in there]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x" * 5000 + "red" + "y" * 5000, "x" * 5000 + "blue" + "y" * 5000),
        ("x" * 5000, "x" * 5001),
        (b"x" * 5000 + b"1", b"x" * 5000 + b"2"),
        (10**5000, 10**5000 + 1),
        ([10**5000] * 2, 10**5000),
        ({"a": "x" * 100}, ["x" * 100]),
    ],
    ids=range(6),
)
def test_long_values_are_cut_around_what_differs(before: Any, after: Any) -> None:
    (found,) = Key("step", "1", {"a": before}).diff(Key("step", "1", {"a": after}))
    assert found.before != found.after
    assert max(len(found.before), len(found.after)) <= 62
