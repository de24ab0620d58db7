"""restrike submit --endpoint: a call of an endpoint of a real server, and what means nothing beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.conftest import Restrike
from restrike.media import provenance_of
from restrike.settings import settings
from serving import Server


@pytest.fixture
def told(restrike: Restrike, server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Restrike]:
    """The command, with the server as its environment names it."""
    monkeypatch.setenv("RESTRIKE_SERVER", server.url)
    settings.cache_clear()
    yield restrike
    settings.cache_clear()


def test_an_endpoint_is_called_and_its_file_comes_here(told: Restrike, tmp_path: Path) -> None:
    (tmp_path / "seven.json").write_text('{"prompt": "a seven", "steps": 4}')
    done = told("submit", "--endpoint", "digits", "--payload", "@seven.json", "--seed", 7, "-o", "here")
    assert done.code == 0, done.err
    assert done.out == "here/digits-0.png\n"
    made = provenance_of(tmp_path / "here" / "digits-0.png")
    assert made is not None
    assert (made.card, made.seed, made.arguments["steps"]) == ("digits", 7, 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a two", "--payload", "{}"), "--payload is for --endpoint"),
        (("a two", "--slot", "pipeline=digits"), "--slot is for --endpoint"),
        (("a two", "--endpoint", "digits"), "'a two' stands beside --endpoint"),
        (("--endpoint", "digits", "--steps", 3), "--steps is for a prompt"),
        (("--endpoint", "digits", "--kind", "png"), "--kind is for a prompt"),
        (("--endpoint", "digits", "-v", "steps=2"), "-v is for a workflow"),
        (("--endpoint", "digits", "--max-seconds", 3), "--max-seconds is for what can be planned"),
        (("--endpoint", "digits", "--payload", "{"), "--payload is no JSON"),
        (("--endpoint", "digits", "--payload", "[1]"), "--payload is a JSON object"),
        (("--endpoint", "digits", "--payload", '{"prompt": 1}'), "payload.prompt: 1 is not of type"),
        (("--endpoint", "digit"), "unknown endpoint 'digit', did you mean 'digits'"),
        (("--endpoint", "digits", "--handler", "draw"), "unknown handler of endpoint 'digits' 'draw'"),
    ],
)
def test_what_means_nothing_is_refused(told: Restrike, arguments: tuple[str, ...], message: str) -> None:
    done = told("submit", *arguments)
    assert done.code == 2, done
    assert message in done.err
    assert done.out == ""
