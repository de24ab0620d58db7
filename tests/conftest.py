"""What the whole suite shares: one torch thread, and an engine with the smallest real card loaded."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from serving import Server, served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from restrike.engine.engine import Engine

# Before anyone imports torch, so that every test and subprocess computes alike; two threads gain nothing.
os.environ["OMP_NUM_THREADS"] = "1"

# A busy machine is no failure: a property may take its time.
settings.register_profile("restrike", deadline=None)
settings.load_profile("restrike")


@pytest.fixture(scope="session")
def engine() -> Engine:
    """An engine on the CPU, without extensions, with the card `digits` resident."""
    from restrike.engine.engine import Engine

    engine = Engine(device="cpu")
    engine.load("digits")
    return engine


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real server with one worker, for all tests that leave it as it was."""
    with served(tmp_path_factory.mktemp("server") / "data", "--devices", "cpu:0") as server:
        yield server
