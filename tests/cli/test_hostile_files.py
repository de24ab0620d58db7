"""Files whose provenance a stranger wrote: they steer no terminal, lead nowhere, and fail in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli.conftest import SEVEN, Restrike
from restrike.api import load
from restrike.media import Provenance, provenance_of, write


def forged(path: str, card: str = "digits", **arguments: Any) -> None:
    """A picture that claims this card and these arguments."""
    made = Provenance(
        card=card,
        weights="0" * 64,
        arguments={"prompt": "a seven", **arguments},
        seed=1,
        item=0,
        versions={"restrike": "0\x1b[31m"},
    )
    write(path, np.zeros((1, 8, 8, 3), np.uint8), provenance=made)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"guidance_interval": 5}, "guidance_interval 5 is not a range of two numbers"),
        ({"sigmas": "abc"}, "sigmas 'abc' is not a list of numbers"),
        ({"call": [1, 2]}, "its call arguments are not a mapping"),
        ({"scale": 8191}, "was enlarged 8191 times"),
        ({"scale": "x"}, "was enlarged 'x' times"),
    ],
)
def test_arguments_of_the_wrong_kind_are_refused(
    restrike: Restrike, arguments: dict[str, Any], words: str
) -> None:
    forged("x.png", **arguments)
    outcome = restrike("generate", "--from", "x.png", "-o", "y.png")
    assert outcome.code == 2
    assert words in outcome.err
    assert not Path("y.png").exists()


@pytest.mark.parametrize(
    "card", ["", "../model", "/etc", "~/model", "./model", "model/../model", "mine/model"]
)
def test_a_file_chooses_no_folder_here(restrike: Restrike, card: str) -> None:
    Path("mine/model").mkdir(parents=True)
    Path("mine/model/model_index.json").write_text('{"_class_name": "WanPipeline"}')
    forged("x.png", card=card)
    outcome = restrike("generate", "--from", "x.png", "-o", "y.png")
    assert outcome.code == 2
    assert f"'{card}'" in outcome.err
    assert "model_index.json" not in outcome.err


def test_what_a_file_says_steers_no_terminal(restrike: Restrike) -> None:
    forged("x.png", card="\x1b]0;title\x07", prompt="a\x9b31m seven\ud800\u202e")
    outcome = restrike("inspect", "x.png")
    assert outcome.code == 0
    assert r"\x1b]0;title\x07" in outcome.out
    assert r"a\x9b31m seven\ud800\u202e" in outcome.out
    assert not set(outcome.out + restrike("generate", "--from", "x.png").err) & set("\x1b\x07\x9b\u202e")
    assert json.loads(restrike("inspect", "x.png", "--json").out)["provenance"]["card"] == "\x1b]0;title\x07"


def test_a_file_from_python_is_made_again_with_the_same_bytes(restrike: Restrike) -> None:
    load("digits").generate("a seven", seed=3).save("a.png")
    assert restrike("generate", "--from", "a.png", "-o", "b.png").code == 0
    made, again = provenance_of("a.png"), provenance_of("b.png")
    assert made is not None
    assert again is not None
    assert again.arguments == made.arguments
    if again.versions == made.versions:  # another test of this process may have loaded more libraries
        assert Path("a.png").read_bytes() == Path("b.png").read_bytes()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("-n", "1000000000000"), "at most 1000"),
        (("--item", "9" * 20), f"item {'9' * 20} is not an index"),
        (("-o", f"{'x' * 300}.png"), "the name is too long"),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(
    restrike: Restrike, flags: tuple[str, ...], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_engine(*_: object) -> None:
        raise AssertionError("an engine was made")

    monkeypatch.setattr("restrike.cli.generate._engine", no_engine)
    outcome = restrike(*SEVEN, *flags)
    assert outcome.code == 2
    assert words in outcome.err
