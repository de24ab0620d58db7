"""A store in a folder of its own for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from restrike.store.store import Kept, Store

from .kept import Put, family, key


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store(tmp_path / "store")


@pytest.fixture
def put(store: Store) -> Put:
    """Keeps a value in the store."""

    def call(
        number: int, value: object, *, seconds: float = 1.0, label: str = "task t", **more: object
    ) -> Kept:
        return store.put(
            key(number, **more), value, seconds=seconds, label=label, origin="w/0001", family=family(number)
        )

    return call
