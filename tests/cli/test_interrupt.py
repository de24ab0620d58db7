"""Ctrl-C and failures midway: exit code 4 or the failure's own, and only whole files."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import SEVEN, Restrike
from restrike.cli.screen import PlainScreen
from restrike.engine.events import Event, StepFinished
from restrike.errors import Shortfall
from restrike.media import provenance_of


@pytest.fixture
def interrupted_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[StepFinished]]:
    """A person who presses Ctrl-C after the second step of picture 1; yields the steps that ran."""
    seen: list[StepFinished] = []
    show = PlainScreen.show

    def shown(self: PlainScreen, event: Event) -> None:
        show(self, event)
        if isinstance(event, StepFinished):
            seen.append(event)
            if (event.item, event.step) == (1, 2):
                os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(PlainScreen, "show", shown)
    before = signal.getsignal(signal.SIGINT)
    yield seen
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_stops_at_the_next_step(
    restrike: Restrike, interrupted_at: list[StepFinished], tmp_path: Path
) -> None:
    outcome = restrike(*SEVEN, "-n", "3", "-o", "x.png")
    assert outcome.code == 4
    assert outcome.out == "x-0.png\n"
    assert outcome.err == "restrike: cancelled at a step boundary\n"
    assert (interrupted_at[-1].item, interrupted_at[-1].step) == (1, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["x-0.png"]
    assert provenance_of("x-0.png") is not None


def test_with_json_the_files_that_were_finished_are_named(
    restrike: Restrike, interrupted_at: list[StepFinished]
) -> None:
    outcome = restrike(*SEVEN, "-n", "3", "-o", "x.png", "--json")
    assert outcome.code == 4
    assert outcome.json["error"]["type"] == "Cancelled"
    assert [file["path"] for file in outcome.json["files"]] == ["x-0.png"]


def test_a_second_interrupt_stops_at_once(
    restrike: Restrike, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def impatient(self: PlainScreen, event: Event) -> None:
        if isinstance(event, StepFinished):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(PlainScreen, "show", impatient)
    outcome = restrike(*SEVEN)
    assert (outcome.code, outcome.out, outcome.err) == (4, "", "restrike: interrupted\n")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_a_shortfall_and_leaves_no_file(
    restrike: Restrike, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise Shortfall("cannot write 'x.png': no space left")

    monkeypatch.setattr("restrike.cli.writing.write", full)
    outcome = restrike(*SEVEN, "-o", "x.png")
    assert (outcome.code, outcome.err) == (3, "restrike: cannot write 'x.png': no space left\n")
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_understood_is_a_crash(restrike: Restrike, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("two\nlines")

    monkeypatch.setattr("restrike.cli.writing.write", broken)
    outcome = restrike(*SEVEN, "-o", "x.png")
    assert (outcome.code, outcome.err) == (1, "restrike: ZeroDivisionError: two lines\n")
