"""A lab in a folder of its own for each test; the engine is one for all."""

from __future__ import annotations

from pathlib import Path

import pytest

from restrike.engine.engine import Engine

from .lab import CountedEngine, Lab


@pytest.fixture
def lab(tmp_path: Path, engine: Engine) -> Lab:
    """An empty workspace and store."""
    return Lab(tmp_path, CountedEngine(engine))
