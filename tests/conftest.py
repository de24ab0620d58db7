"""What the whole suite shares: one torch thread, and an engine with the smallest real card loaded."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from restrike.engine.engine import Engine

# Before anyone imports torch, so that every test and subprocess computes alike; two threads gain nothing.
os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture(scope="session")
def engine() -> Engine:
    """An engine on the CPU, without extensions, with the card `digits` resident."""
    from restrike.engine.engine import Engine

    engine = Engine(device="cpu")
    engine.load("digits")
    return engine
