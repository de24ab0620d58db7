"""The digits' cell, minted once for the session; engines that adopt it, and one that runs all eagerly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mint.children import Bench
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.mint.adoption import adoption
from restrike.mint.adoption.cells import Cells
from restrike.mint.parent import Minted
from restrike.mint.store.store import CellStore

SEVEN = Request(prompt="a seven", seed=3, steps=4)
NONE = Request(prompt="a seven", seed=3, steps=4, guidance_mode="none")
"""A size of batch that the session's cell was not made for."""


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cell is faster: what a busy machine measures is no matter of these tests."""
    timed = adoption.prove
    monkeypatch.setattr(adoption, "prove", lambda *given: replace(timed(*given), eager_s=2.0, cell_s=1.0))


@pytest.fixture(scope="session")
def kept(minted: tuple[Bench, Minted]) -> CellStore:
    """The store with the cell; for reading."""
    return minted[0].store


@pytest.fixture
def adopting() -> Callable[..., Engine]:
    """Makes an engine that uses the cells of a store, with the digits loaded."""

    def make(store: CellStore, **options: Any) -> Engine:
        engine = Engine(device="cpu", cells=Cells(store, **{"asked": True, **options}))
        engine.load("digits")
        return engine

    return make


@pytest.fixture(scope="session")
def eager() -> Engine:
    """An engine without cells."""
    return Engine(device="cpu")
