"""`--mint background`: eager serves, a child mints what is missing, and it is adopted while requests run."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from mint.children import Bench
from restrike.engine.engine import Engine
from restrike.engine.events import StepFinished, Succeeded
from restrike.mint.adoption import background
from restrike.mint.adoption.adoption import Adopted
from restrike.mint.adoption.cells import Cells
from restrike.mint.events import EntryLanded
from restrike.mint.outcome import Outcome
from restrike.mint.parent import Watcher
from restrike.mint.report import Ending
from restrike.mint.request import MintRequest
from restrike.mint.store.store import CellStore

from .conftest import SEVEN
from .forging import key_in


class Mint:
    """Stands for the mint of a child: lands the kept cell when it is told to."""

    def __init__(self, kept: CellStore, store: CellStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kept, self.store = kept, store
        self.asked: list[MintRequest] = []
        self.watchers: list[Watcher] = []
        self.ending = Ending(outcome=Outcome.OK)
        monkeypatch.setattr(background, "mint", self.mint)

    def mint(self, request: MintRequest, watcher: Watcher) -> Any:
        self.asked.append(request)
        self.watchers.append(watcher)
        report = type("Report", (), {"ending": self.ending})
        return type("Minted", (), {"report": report})

    def land(self) -> None:
        """What the child does when an entry is done."""
        key = key_in(self.kept)
        for name in ("sealed", "keys", "signposts", "tried"):
            shutil.copytree(self.kept.root / name, self.store.root / name, dirs_exist_ok=True)
        self.watchers[-1].show(EntryLanded(entry="transformer 8x8-batched", key=key.hex, how="published"))


@pytest.fixture
def mint(kept: CellStore, store: CellStore, monkeypatch: pytest.MonkeyPatch) -> Mint:
    return Mint(kept, store, monkeypatch)


def test_a_cell_that_lands_answers_the_next_request_and_the_running_one_ends_as_it_began(
    mint: Mint, store: CellStore
) -> None:
    cells = Cells(store, asked=True, mint=True)
    engine = Engine(device="cpu", cells=cells)
    running = engine.stream("digits", SEVEN)
    steps = 0
    for event in running:
        steps += isinstance(event, StepFinished)
        if steps == 1 and isinstance(event, StepFinished):
            cells.wait()
            mint.land()
        if isinstance(event, Succeeded):
            made = event.generation
            assert (made.compiled.executed, sum(made.compiled.eager.values())) == (0, 4)
            assert any("are being minted; until they have landed, eager serves" in n for n in made.notices)
    assert steps == 4
    assert engine.generate("digits", SEVEN).compiled.executed == 4


def test_only_what_is_missing_is_asked_for(mint: Mint, store: CellStore, kept: CellStore) -> None:
    cells = Cells(store, asked=True, mint=True)
    Engine(device="cpu", cells=cells).load("digits")
    cells.wait()
    (asked,) = mint.asked
    assert asked.shapes == ("8x8-batched", "8x8-none")
    assert (asked.slot.ref, asked.targets, asked.precision) == ("digits", ("transformer",), "float32")
    mint.land()
    again = Cells(store, asked=True, mint=True)
    Engine(device="cpu", cells=again).load("digits")
    again.wait()
    assert mint.asked[1].shapes == ("8x8-none",)


def test_where_nothing_is_missing_no_mint_begins(
    mint: Mint, store: CellStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Adopted(armed={}, missing=(), refused=(), rejected={}, seconds=0.0)
    monkeypatch.setattr(Cells, "_adopted", lambda cells, resident: whole)
    cells = Cells(store, asked=True, mint=True)
    Engine(device="cpu", cells=cells).load("digits")
    cells.wait()
    assert not mint.asked


def test_a_mint_that_fails_is_told_and_eager_serves_on(mint: Mint, store: CellStore) -> None:
    mint.ending = Ending(outcome=Outcome.REFUSED, kind="X", message="it cannot be compiled")
    cells = Cells(store, asked=True, mint=True)
    engine = Engine(device="cpu", cells=cells)
    engine.load("digits")
    cells.wait()
    made = engine.generate("digits", SEVEN)
    assert any("minting failed: it cannot be compiled" in line for line in made.notices)
    assert made.compiled.executed == 0


def test_an_engine_that_closes_cancels_its_mint(
    mint: Mint, store: CellStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    begun = threading.Event()

    def endless(request: MintRequest, watcher: Watcher) -> Any:
        begun.set()
        while not watcher.cancelled():
            threading.Event().wait(0.01)
        return type("M", (), {"report": type("R", (), {"ending": Ending(outcome=Outcome.CANCELLED)})})

    monkeypatch.setattr(background, "mint", endless)
    cells = Cells(store, asked=True, mint=True)
    with Engine(device="cpu", cells=cells) as engine:
        engine.load("digits")
        assert begun.wait(10)
        assert cells.is_minting
        engine.close()
    assert not cells.is_minting


@pytest.mark.slow
def test_a_real_child_mints_in_the_background_and_its_cell_is_adopted_live(bench: Bench) -> None:
    cells = Cells(bench.store, asked=True, mint=True)
    engine = Engine(device="cpu", cells=cells)
    assert engine.generate("digits", SEVEN).compiled.executed == 0
    cells.wait()
    assert engine.generate("digits", SEVEN).compiled.executed == 4
    assert engine.load("digits").compiled.counters.armed == 2
