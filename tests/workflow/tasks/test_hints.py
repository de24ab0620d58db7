"""What values arguments take, what parts results have, and what can be passed where."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import pytest
from pydantic import Field

from restrike.workflow.tasks import hints
from restrike.workflow.tasks.kinds import Colour
from restrike.workflow.values import Clip

from .making import disc, noise

Few = Annotated[int, Field(ge=1, le=8)]


class Pair(TypedDict):
    left: int
    right: float


@pytest.mark.parametrize(
    ("hint", "value", "taken"),
    [
        (int, 4, 4),
        (int, "4", 4),
        (int, 4.0, 4),
        (float, 4, 4.0),
        (float, "0.5", 0.5),
        (int | float, 4, 4),
        (int | None, None, None),
        (Few, "8", 8),
        (list[int], ["1", 2], [1, 2]),
        (dict[str, float], {"a": 1}, {"a": 1.0}),
        (Literal["a", "b"], "b", "b"),
        (str | int, "4", "4"),
        (Pair, {"left": "1", "right": 2}, {"left": 1, "right": 2.0}),
        (Colour, "#ff8800", "#ff8800"),
        (Any, {"x": [1]}, {"x": [1]}),
    ],
)
def test_a_value_is_taken(hint: Any, value: Any, taken: Any) -> None:
    found = hints.checked(hint, value)
    assert found == taken
    assert type(found) is type(taken)


@pytest.mark.parametrize(
    ("hint", "value", "said"),
    [
        (int, "four", "should be a valid integer"),
        (int, 4.5, "fractional part"),
        (int, True, "not true or false"),
        (float, False, "not true or false"),
        (float, float("nan"), "finite"),
        (float, float("inf"), "finite"),
        (int | None, True, "not true or false"),
        (bool, "yes", "boolean"),
        (bool, 1, "boolean"),
        (str, 4, "should be a valid string"),
        (Few, 9, "less than or equal to 8"),
        (list[int], [1, "two"], "[1]: should be a valid integer"),
        (dict[str, list[Few]], {"a": [1, 0]}, "[a][1]: should be greater"),
        (Literal["a", "b"], "c", "should be 'a' or 'b'"),
        (Pair, {"left": 1}, "a table of left, right"),
        (Colour, "reddish", "'reddish' is no colour"),
        (Clip, "a picture", "should be a picture or clip, not text"),
        (Clip, {"frames_THWC": []}, "should be a picture or clip, not a table"),
        (Clip | None, noise(0.1), "should be a picture or clip, not a sound"),
        (list[Clip], [disc(), 3], "[1]: should be a picture or clip, not a whole number"),
        (Path, "/etc/passwd", "should be a file, not text; give it as $asset.PATH"),
    ],
)
def test_a_value_is_refused_in_one_line(hint: Any, value: Any, said: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        hints.checked(hint, value)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_clips_are_taken_as_they_are() -> None:
    clip = disc()
    assert hints.checked(list[Clip], [clip])[0] is clip
