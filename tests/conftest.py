"""What the whole suite shares: one torch thread, and an engine with the smallest real card loaded."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
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
