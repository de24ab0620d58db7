"""A key ring, a good cell and a store, each in a folder of its own; and mints in child processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from restrike.cards import registry
from restrike.mint.cell.keyring import Keyring
from restrike.mint.parent import Minted
from restrike.mint.store.store import CellStore

from .cells import Making
from .children import Bench, plugin_path, remembering_compiler


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


@pytest.fixture(scope="session")
def minting_environment(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> dict[str, str]:
    """The variables with which a child finds the faulty cards and the compiler that remembers."""
    assert pytestconfig.cache is not None
    memory = Path(pytestconfig.cache.mkdir("compiler"))
    return {
        "PYTHONPATH": plugin_path(tmp_path_factory.mktemp("plugin")),
        **remembering_compiler(memory),
    }


@pytest.fixture
def bench(
    tmp_path: Path, minting_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bench]:
    """Mints in an empty folder."""
    for name, value in minting_environment.items():
        monkeypatch.setenv(name, value)
    for place in minting_environment["PYTHONPATH"].split(":"):
        monkeypatch.syspath_prepend(place)
    # The faulty cards are installed for this test alone.
    registry._registered.cache_clear()
    yield Bench(root=tmp_path)
    registry._registered.cache_clear()


@pytest.fixture(scope="session")
def minted(
    tmp_path_factory: pytest.TempPathFactory, minting_environment: dict[str, str]
) -> tuple[Bench, Minted]:
    """The smallest real card, minted once for the whole session, with the bench that holds its store."""
    bench = Bench(root=tmp_path_factory.mktemp("minted"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in minting_environment.items():
            patch.setenv(name, value)
        made = bench.mint("digits", shapes=("8x8-batched",))
    assert made.report.ending.outcome == "ok", made.report.ending
    return bench, made
