"""Tasks on lists, such as those that gather the members of a `for_each`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from restrike.errors import Refused
from restrike.workflow.tasks.registry import task

Index = Annotated[int, Field(ge=-1_000_000, le=1_000_000)]


@task("list.item", epoch="1")
def item(items: list[Any], index: Index) -> Any:
    """Take one item of a list, by a number that another step may give.

    Args:
        items: What it is taken from.
        index: 0 is the first, -1 the last.

    Returns:
        The item.

    Example:
        task: list.item
        arguments: {items: "$step.many[*]", index: -1}
    """
    if not -len(items) <= index < len(items):
        raise Refused(f"there is no item {index}; the list has {len(items)}")
    return items[index]


@task("list.slice", epoch="1")
def slice_items(
    items: list[Any],
    start: Index = 0,
    stop: Index | None = None,
    step: Annotated[int, Field(ge=1, le=1_000_000)] = 1,
) -> list[Any]:
    """Take some items of a list.

    Args:
        items: What they are taken from.
        start: The first that is taken; negative counts from the end.
        stop: The first that is not taken any more; left out, all are.
        step: 2 takes every other one.

    Returns:
        A list, in the same order.

    Example:
        task: list.slice
        arguments: {items: "$step.many[*]", stop: 2}
    """
    return items[start:stop:step]


@task("list.concat", epoch="1")
def concat(lists: list[list[Any]]) -> list[Any]:
    """Make one list of several.

    Args:
        lists: In order.

    Returns:
        All their items.

    Example:
        task: list.concat
        arguments: {lists: ["$step.first[*]", "$step.second[*]"]}
    """
    return [entry for part in lists for entry in part]


@task("list.reverse", epoch="1")
def reverse(items: list[Any]) -> list[Any]:
    """Turn a list around.

    Args:
        items: What is turned around.

    Returns:
        Its items, the last first.

    Example:
        task: list.reverse
        arguments: {items: "$step.many[*]"}
    """
    return items[::-1]


@task("list.length", epoch="1")
def length(items: list[Any]) -> int:
    """Count the items of a list.

    Args:
        items: What is counted.

    Returns:
        How many there are.

    Example:
        task: list.length
        arguments: {items: "$step.many[*]"}
    """
    return len(items)
