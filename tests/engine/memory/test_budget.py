"""What was reserved comes back on every way out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from restrike.engine.memory.budget import Budget
from restrike.engine.memory.limits import Limit
from restrike.engine.memory.sizes import storages_of

from .rooms import CPU, SIZE_BYTES, layer


@pytest.fixture
def budget() -> Budget:
    return Budget(Limit(size_bytes=1000, why="the test"))


def succeed() -> None:
    pass


def fail() -> None:
    raise ValueError


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("act", [succeed, fail, interrupt])
def test_bytes_come_back_however_the_context_ends(budget: Budget, act: Callable[[], None]) -> None:
    try:
        with budget.claim("work", 300):
            assert budget.free_bytes == 700
            act()
    except (ValueError, KeyboardInterrupt):
        pass
    assert budget.reserved_bytes == 0
    assert budget.free_bytes == 1000


def test_releasing_twice_gives_nothing_more(budget: Budget) -> None:
    kept, gone = budget.claim("work", 300), budget.claim("work", 200)
    gone.release()
    gone.release()
    assert budget.reserved_bytes == 300
    kept.release()


def test_it_says_what_is_reserved_for_what(budget: Budget) -> None:
    for what, size_bytes in (("graphs", 1), ("state", 2), ("graphs", 3)):
        budget.claim(what, size_bytes)
    assert budget.reserved() == {"graphs": 4, "state": 2}


def test_resident_tensors_are_not_free() -> None:
    budget, module = Budget(Limit(size_bytes=SIZE_BYTES + 10, why="the test")), layer()
    budget.resident.note(storages_of(module, CPU))
    assert budget.free_bytes == 10
    budget.claim("work", 11)
    assert budget.free_bytes == -1
