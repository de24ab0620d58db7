"""A key ring, a good cell and a store, each in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from restrike.mint.cell.keyring import Keyring
from restrike.mint.store.store import CellStore

from .cells import Making


@pytest.fixture
def store(tmp_path: Path) -> CellStore:
    """An empty store."""
    return CellStore(tmp_path / "cells")


@pytest.fixture
def ring(store: CellStore) -> Keyring:
    """The store's ring."""
    return store.ring


@pytest.fixture
def sealed(tmp_path: Path, ring: Keyring) -> Path:
    """A good cell, signed by the store's own key."""
    return Making().sealed(tmp_path / "good.cell", ring.signer())
