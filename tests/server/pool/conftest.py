"""Houses: data folders with real workers, each test's own or shared by a module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from server.pool.house import House


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store for all workers of a module, in their environment."""
    folder = tmp_path_factory.mktemp("store")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RESTRIKE_STORE", str(folder))
        yield folder


@pytest.fixture
def make(store: Path, tmp_path: Path) -> Iterator[Callable[..., House]]:
    """Makes houses; their workers end with the test."""
    made: list[House] = []

    def new(**options: Any) -> House:
        made.append(House(tmp_path / "data", **options))
        return made[-1]

    yield new
    for house in made:
        house.close()


@pytest.fixture(scope="module")
def pair(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A house with two workers that work, for all tests of a module."""
    house = House(tmp_path_factory.mktemp("pair"), devices="cpu:0,cpu:1")
    house.open()
    yield house
    house.close()
