"""Runs the command in this process, in an empty folder, and keeps what it said on each stream."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from restrike.cli.app import run

SEVEN = ("generate", "a seven", "--card", "digits", "--seed", "7")


@dataclass(frozen=True)
class Outcome:
    """Exit code, stdout, stderr."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Stdout as the one JSON object that it must be."""
        return json.loads(self.out)


Restrike = Callable[..., Outcome]


@pytest.fixture
def restrike(capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Restrike:
    """The command, run in `tmp_path` without a terminal."""
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: str | Path) -> Outcome:
        capfd.readouterr()
        code = run([str(argument) for argument in arguments])
        said = capfd.readouterr()
        return Outcome(code, said.out, said.err)

    return call
