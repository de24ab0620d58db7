"""Words of other programs: each is answered with what it is called here, which exists; none is taken away."""

from __future__ import annotations

import re
from typing import Any

import pytest
from typer.main import get_command

from cli.conftest import Restrike
from restrike.cli.app import app
from restrike.cli.other_words import _OPTIONS, _VERBS, command_for, option_for

COMMANDS: dict[str, Any] = get_command(app).commands  # pyright: ignore[reportAttributeAccessIssue]
OPTIONS = {name for command in COMMANDS.values() for part in command.params for name in part.opts}


@pytest.mark.parametrize("ours", _OPTIONS)
def test_an_option_that_is_named_exists(ours: str) -> None:
    assert ours in OPTIONS


@pytest.mark.parametrize("ours", _VERBS)
def test_a_command_that_is_named_exists(ours: str) -> None:
    word = ours.split()[1]
    assert word in COMMANDS or word in ("--help", "--version")


def test_no_word_of_ours_is_taken_for_one_of_others() -> None:
    assert not {word for words in _VERBS.values() for word in words} & COMMANDS.keys()
    generate = {name for part in COMMANDS["generate"].params for name in part.opts}
    theirs = {f"--{word}" for ours, (_, *words) in _OPTIONS.items() if ours != "--var" for word in words}
    assert not (theirs & generate)


def test_an_option_is_told_only_to_a_verb_that_has_it() -> None:
    assert option_for("--cfg_scale", ["--guidance"]) == "--guidance SCALE"
    assert option_for("--cfg_scale", ["--port"]) is None
    assert option_for("--frobnicate", OPTIONS) is None
    assert command_for("frobnicate") is None


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("generate", "x", "--cfg", "7"), "there is no --cfg; say --guidance SCALE"),
        (("generate", "x", "--negative_prompt", "y"), "there is no --negative_prompt; say --negative PROMPT"),
        (("generate", "-p", "x"), "there is no -p; say PROMPT, in quotes, with no option before it"),
        (("run", "x.yaml", "--set", "a=b"), "there is no --set; say --var NAME=VALUE"),
        (("generate", "x", "--step", "3"), "there is no --step; did you mean --steps? --help shows all"),
        (("jobs", "--frobnicate"), "there is no --frobnicate; --help shows all"),
        (("pull", "x"), "there is no command 'pull'; say: restrike generate PROMPT --card OWNER/NAME"),
        (("a red circle",), "there is no command 'a red circle'; say: restrike generate \"a red circle\""),
        (("generate", "x", "--steps"), "option '--steps' requires an argument; see --help"),
    ],
)
def test_one_line_says_what_to_say(restrike: Restrike, arguments: tuple[str, ...], expected: str) -> None:
    done = restrike(*arguments)
    assert (done.code, done.out, done.err) == (2, "", f"restrike: {expected}\n")


def test_a_verb_of_a_group_is_no_verb_of_others(restrike: Restrike) -> None:
    assert re.search(r"unknown command 'ls'.* Known: .*list", restrike("cells", "ls").err)
