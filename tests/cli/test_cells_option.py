"""`--cells` and `--mint`: what may be asked for, and what is told where there is nothing to adopt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.conftest import SEVEN, Restrike
from restrike.settings import settings


@pytest.fixture(autouse=True)
def _empty_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("RESTRIKE_STORE", str(tmp_path / "store"))
    settings.cache_clear()
    yield
    settings.cache_clear()


def test_what_is_not_there_is_told_to_who_asked_and_to_nobody_else(restrike: Restrike) -> None:
    plain = json.loads(restrike(*SEVEN, "-o", "plain.png", "--json").out)
    assert (plain["compiled"], plain["notices"]) == ({"cells": {}, "executed": 0, "eager": {}}, [])
    outcome = restrike(*SEVEN, "-o", "asked.png", "--json", "--cells", "auto")
    asked = json.loads(outcome.out)
    steps = asked["arguments"]["steps"]
    reason = "no cell is armed for 'transformer'"
    assert asked["compiled"] == {"cells": {}, "executed": 0, "eager": {reason: steps}}
    assert asked["notices"] == [f"cells answered 0 of {steps} forwards; eager: {reason} ({steps})"]
    assert Path("plain.png").read_bytes() == Path("asked.png").read_bytes()


def test_cells_that_are_required_and_not_there_are_refused_with_the_remedy(restrike: Restrike) -> None:
    outcome = restrike(*SEVEN, "--cells", "require")
    assert outcome.code == 2
    assert "card 'digits' must run compiled, and cannot: no cell of it is here" in outcome.err
    assert "restrike mint digits" in outcome.err


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--cells", "requires"), "unknown way to use cells 'requires', did you mean 'require'?"),
        (
            ("--cells", "s3://bucket"),
            "Known: auto, off, require. A place of cells is named by RESTRIKE_CELLS.",
        ),
        (("--mint", "later"), "unknown time to mint 'later'"),
        (("--cells", "require", "--mint", "background"), "cells require forbids that"),
        (("--cells", "off", "--mint", "background"), "cells off forbids that"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(restrike: Restrike, options: tuple[str, ...], line: str) -> None:
    Path("seven.yaml").write_text("steps: {one: {generate: digits, arguments: {prompt: a seven}}}\n")
    for verb in (SEVEN, ("run", "seven.yaml")):
        outcome = restrike(*verb, *options)
        assert outcome.code == 2
        assert line in outcome.err
