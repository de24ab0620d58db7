"""The bench on each backend; a GPU's is skipped, saying so, where there is none."""

from __future__ import annotations

import pytest

from .lab import BACKENDS, Lab, backend_named


@pytest.fixture(params=BACKENDS)
def lab(request: pytest.FixtureRequest) -> Lab:
    """A fresh capturer and module on one of the backends."""
    return Lab(backend_named(request.param))
