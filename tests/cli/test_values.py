"""The forms of the command line's own values."""

from __future__ import annotations

import pytest

from restrike.cli.values import settings, sigmas, size
from restrike.errors import Refused


@pytest.mark.parametrize("text", ["64x48", "64X48", "64×48", " 64 x 48 "])
def test_size(text: str) -> None:
    assert size(text) == (64, 48)


@pytest.mark.parametrize(
    "text", ["64", "64x", "x48", "64x48x3", "-64x48", "6.4x48", "64*48", "", "9999999x1"]
)
def test_not_a_size(text: str) -> None:
    with pytest.raises(Refused, match="WIDTHxHEIGHT"):
        size(text)


def test_sigmas() -> None:
    assert sigmas("1,0.5, 0.25") == (1.0, 0.5, 0.25)
    with pytest.raises(Refused, match="commas"):
        sigmas("1 0.5")


def test_settings_are_json_or_bare_words() -> None:
    given = [
        "scale=4.0",
        "flag=true",
        "none=null",
        "names=[1, 2]",
        'quoted="1"',
        "word=a cat",
        "empty=",
        "x=a=b",
    ]
    assert settings(given) == {
        "scale": 4.0,
        "flag": True,
        "none": None,
        "names": [1, 2],
        "quoted": "1",
        "word": "a cat",
        "empty": "",
        "x": "a=b",
    }


@pytest.mark.parametrize("text", ["word", "=3", "x=[1", 'x={"a"', 'x="a', "x=NaN", "x=Infinity"])
def test_not_a_setting(text: str) -> None:
    with pytest.raises(Refused):
        settings([text])


def test_a_setting_is_given_once() -> None:
    with pytest.raises(Refused, match="twice"):
        settings(["x=1", "x=2"])
