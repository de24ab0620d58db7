"""`--capture`: what may be asked for, and what is told of it."""

from __future__ import annotations

import json
from pathlib import Path

from cli.conftest import SEVEN, Restrike


def test_the_picture_is_the_same_and_json_tells_what_was_replayed(restrike: Restrike) -> None:
    plain = json.loads(restrike(*SEVEN, "-o", "plain.png", "--json").out)
    taped = json.loads(restrike(*SEVEN, "-o", "taped.png", "--json", "--capture", "tape").out)
    assert Path("plain.png").read_bytes() == Path("taped.png").read_bytes()
    steps = plain["arguments"]["steps"]
    assert plain["capture"] == {
        "backend": None,
        "replays": 0,
        "eager_breaks": {"no backend that pays on cpu": steps},
        "graphs": 0,
        "graph_bytes": 0,
    }
    assert taped["capture"]["backend"] == "tape"
    assert taped["capture"]["replays"] + sum(taped["capture"]["eager_breaks"].values()) == steps
    assert taped["capture"]["eager_breaks"]["warming"] == 1


def test_what_was_asked_for_and_did_not_engage_is_told(restrike: Restrike) -> None:
    outcome = restrike(*SEVEN, "--steps", "2", "--capture", "tape")
    assert outcome.code == 0
    assert "capture tape answered 0 of 2 steps; eager: warming (1), proving (1)" in outcome.err


def test_an_unknown_way_and_one_that_cannot_run_here_are_refused(restrike: Restrike) -> None:
    outcome = restrike(*SEVEN, "--capture", "tap")
    assert outcome.code == 2
    assert "unknown capture 'tap', did you mean 'tape'?" in outcome.err
    outcome = restrike(*SEVEN, "--device", "cpu", "--capture", "cuda")
    assert outcome.code == 2
    assert "capture 'cuda' cannot run on cpu; auto, off and tape can" in outcome.err


WORKFLOW = """
name: seven
seed: 7
steps:
  - name: picture
    operation: generate
    arguments: {model: digits, prompt: a seven}
"""


def test_a_run_takes_it_too(restrike: Restrike) -> None:
    Path("seven.yaml").write_text(WORKFLOW)
    outcome = restrike("run", "seven.yaml", "--capture", "tap")
    assert outcome.code == 2
    assert "unknown capture 'tap'" in outcome.err
