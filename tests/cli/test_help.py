"""--help, and that the reference and the program name the same things."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from cli.conftest import Restrike
from restrike.cli.app import app
from restrike.errors import RULES

DOCS = Path(__file__).parents[2] / "docs" / "reference"


def commands(command: Any, name: str = "restrike") -> dict[str, Any]:
    """Each command with its full name."""
    found = {name: command}
    for child, inner in getattr(command, "commands", {}).items():
        found |= commands(inner, f"{name} {child}")
    return found


def flags(command: Any) -> set[str]:
    """All option names of a command."""
    return {name for part in command.params for name in (*part.opts, *part.secondary_opts) if name[0] == "-"}


@pytest.mark.parametrize("name", commands(get_command(app)))
def test_each_command_has_help(restrike: Restrike, name: str) -> None:
    outcome = restrike(*name.split()[1:], "--help")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith(f"Usage: {name}")
    assert "\x1b" not in outcome.out
    assert outcome.out == restrike(*name.split()[1:], "-h").out


def test_without_a_verb_help_is_shown(restrike: Restrike) -> None:
    outcome = restrike()
    assert outcome.code == 0
    assert "generate" in outcome.out


def test_version(restrike: Restrike) -> None:
    assert re.fullmatch(r"restrike \d+\.\d+\.\d+\S*\n", restrike("--version").out)


def test_options_are_shown_in_groups(restrike: Restrike) -> None:
    text = restrike("generate", "--help").out
    groups = ["What to make:", "Sampling:", "Output:", "Machine:"]
    assert sorted(groups, key=text.index) == groups


def test_an_argument_is_called_as_it_is_written(restrike: Restrike) -> None:
    assert "\n  PROMPT  What to make" in restrike("generate", "--help").out


@pytest.mark.parametrize("name", commands(get_command(app)))
def test_each_option_is_in_the_reference(name: str) -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in DOCS.glob("*.md"))
    undocumented = {
        flag for flag in flags(commands(get_command(app))[name]) if not re.search(rf"{flag}\b", text)
    }
    assert undocumented <= {"-h", "--help", "--show-completion"}


def test_the_reference_names_no_option_that_is_gone() -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    exist = set().union(*(flags(command) for command in commands(get_command(app)).values()))
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", text))
    # That of another program, which is answered with what it is called here.
    assert named <= {*exist, "--help", "--cfg"}


def test_the_table_of_errors_is_the_table_in_the_code() -> None:
    text = (DOCS / "errors.md").read_text(encoding="utf-8")
    for cls, rule in RULES.items():
        (row,) = re.findall(rf"^\| `{cls.__name__}`.*$", text, re.MULTILINE)
        assert row.endswith(f"| {rule.retry.value} | {rule.exit_code} | {rule.http_status} |")
