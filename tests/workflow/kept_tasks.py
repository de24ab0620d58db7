"""Tasks of the tests' own: one that takes anything on, one with effects, one that draws."""

from __future__ import annotations

from typing import Any

from restrike.workflow.tasks.registry import task


@task("mine.keep", epoch="1")
def keep(value: Any = None, other: Any = None) -> Any:
    """Give back what it got."""
    return value


@task("mine.tell", epoch="1", side_effects=True)
def tell(text: str) -> str:
    """Stands for a task that does something in the world."""
    return text


@task("mine.draw", epoch="1", draws=True)
def draw(seed: int, sides: int = 6) -> int:
    """Roll a die."""
    return seed % sides
