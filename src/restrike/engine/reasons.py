"""Reasons with how often each was given: counted within a bound, and said in one line. Decides nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

REASONS_KEPT = 64
OTHER = "other reasons"
_LENGTH = 200


def count(counts: Counter[str], reason: str, rest: str = OTHER) -> None:
    """Count a reason; once there are `REASONS_KEPT`, a new one counts under `rest`.

    A reason may quote values; a card that runs for months must not collect them without end.
    """
    counts[reason if reason in counts or len(counts) < REASONS_KEPT else rest] += 1


def said(counts: Mapping[str, int]) -> str:
    """`warming (1), proving (2)`: the first that was given comes first."""
    return ", ".join(f"{reason} ({count})" for reason, count in counts.items())


def added(every: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Several as one."""
    found: Counter[str] = Counter()
    for counts in every:
        found.update(counts)
    return dict(found)


def brief(counts: Mapping[str, int], most: int) -> dict[str, int]:
    """The first `most` of them, each cut to a line, and the others as one: none of these ever counts down."""
    found: Counter[str] = Counter()
    for place, (reason, number) in enumerate(counts.items()):
        found[reason[:_LENGTH] if place < most else OTHER] += number
    return dict(found)
