"""Text, numbers and lists."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restrike.errors import Refused
from restrike.workflow.tasks import lists
from restrike.workflow.tasks.number import calculate, draw
from restrike.workflow.tasks.text import choose, join, split, template


def test_a_template_takes_its_values() -> None:
    values = {"n": 7, "share": 0.5, "on": True, "who": "{n}"}
    text = template("{{{n:03d}}} {share:.0%} {on} {who}", values)
    assert text == "{007} 50% True {n}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{b}", "asks for 'b'; there are a"),
        ("{a.__class__}", "asks for 'a.__class__'"),
        ("{a[0]}", "asks for 'a\\[0\\]'"),
        ("{}", "asks for ''"),
        ("{a", "does not hold"),
        ("{a:d}", "does not hold"),
        ("{a!r}", "no format that is known"),
        ("{a:999999999}", "no format that is known"),
        ("{a:{a}}", "does not hold"),
        ("nothing", "does not use a"),
    ],
)
def test_a_template_that_cannot_be_filled_is_refused(text: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        template(text, {"a": "x"})


def test_join_and_split() -> None:
    assert join(["a", 1, 2.5, "", "b"], " ") == "a 1 2.5 b"
    assert split(" a, b ,,c", ",") == ["a", "b", "c"]


@given(st.lists(st.text("ab", min_size=1), min_size=1, max_size=5), st.integers(0, 2**53 - 1))
def test_a_choice_is_one_of_the_options_and_always_the_same(options: list[str], seed: int) -> None:
    assert choose(options, seed=seed) == choose(options, seed=seed)
    assert choose(options, seed=seed) in options


def test_choices_follow_their_weights() -> None:
    drawn = Counter(choose(["a", "b", "c"], [3, 1, 0], seed=seed) for seed in range(2000))
    assert set(drawn) == {"a", "b"}
    assert drawn["a"] / 2000 == pytest.approx(0.75, abs=0.04)
    with pytest.raises(Refused, match="2 options need as many weights"):
        choose(["a", "b"], [1], seed=0)
    with pytest.raises(Refused, match="not all of them zero"):
        choose(["a", "b"], [0, 0], seed=0)


def test_arithmetic() -> None:
    assert calculate("round(seconds * fps / 4) * 4 + 1", {"seconds": 2, "fps": 8.5}) == 17
    assert calculate("-2 ** 2") == -4
    assert calculate("7 // 2 + 7 % 2") == 4
    assert calculate("max(1, x, 3) / 2", {"x": 2}) == 1.5
    assert type(calculate("2 * 3")) is int
    assert type(calculate("6 / 2")) is float


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 / 0", "has no result: division by zero"),
        ("x + 1", "there is no 'x'"),
        ("2 **", "is no expression"),
        ("__import__('os')", "is not arithmetic"),
        ("().__class__", "is not arithmetic"),
        ("True + 1", "is not arithmetic"),
        ("'a' * 9", "is not arithmetic"),
        ("9 ** 9 ** 9", "exponent"),
        ("2 ** 60", "grew beyond"),
        ("1e308 * 10", "no real number"),
        ("(-1) ** 0.5", "no real number"),
        ("sqrt(-1)", "has no result"),
        ("(" * 300 + "1" + ")" * 300, "is no expression"),
    ],
)
def test_what_is_no_arithmetic_is_refused(text: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        calculate(text)


@given(st.integers(-50, 50), st.integers(0, 50), st.integers(0, 2**53 - 1))
def test_a_whole_number_is_drawn_between_whole_limits(low: int, width: int, seed: int) -> None:
    found = draw(low, low + width, seed=seed)
    assert type(found) is int
    assert low <= found <= low + width


def test_all_whole_numbers_are_drawn_alike() -> None:
    drawn = Counter(draw(1, 6, seed=seed) for seed in range(3000))
    assert set(drawn) == set(range(1, 7))
    assert min(drawn.values()) > 400
    assert 0.25 <= draw(0.25, 0.5, seed=1) <= 0.5
    with pytest.raises(Refused, match="minimum 2 is above maximum 1"):
        draw(2, 1, seed=0)


def test_lists() -> None:
    items = ["a", "b", "c"]
    assert lists.item(items, -1) == "c"
    assert lists.slice_items(items, 1) == ["b", "c"]
    assert lists.slice_items(items, step=2) == ["a", "c"]
    assert lists.concat([items, ["d"]]) == ["a", "b", "c", "d"]
    assert lists.reverse(items) == ["c", "b", "a"]
    assert lists.length(items) == 3
    with pytest.raises(Refused, match="no item 3; the list has 3"):
        lists.item(items, 3)
