"""What a worker tells of its engine while it works."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from restrike.cards.request import Request
from restrike.server.place import Place
from restrike.server.worker import machine
from restrike.server.worker.machine import WorkerMachine
from restrike.server.worker.options import WorkerOptions
from restrike.settings import settings


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("RESTRIKE_STORE", str(tmp_path / "store"))
    settings.cache_clear()
    yield
    settings.cache_clear()


def test_it_counts_by_card_and_in_few_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = WorkerOptions(
        name="w",
        database="",
        data=tmp_path,
        device="cpu:0",
        torch_device="cpu",
        server="h 1 2 t",
        share=1,
        capture="tape",
    )
    made = WorkerMachine(options=options, place=Place(folder=tmp_path))
    assert made.report().cards == ()
    result = made.engine.generate("digits", Request(prompt="a seven", seed=7, steps=4))
    (card,) = made.report().cards
    assert card.card == "digits"
    breaks = card.captures.eager_breaks
    assert sum(breaks.values()) + card.captures.replays == result.arguments.steps
    assert breaks["warming"] == 1
    monkeypatch.setattr(machine, "_REASONS_TOLD", 1)
    (card,) = made.report().cards
    assert set(card.captures.eager_breaks) == {"warming", "other reasons"}
    report = made.report()
    assert report.resident == (result.picture.provenance.weights,)
    assert report.resident_bytes > 1_000_000
    made.clear()
    assert made.report().resident == ()
    made.close()
