"""What compiled calls did and did not do, counted by reason. Counts only; decides nothing."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

REASONS_KEPT = 64
OTHER = "other reasons"


@dataclass(frozen=True, kw_only=True)
class CompiledCounters:
    """A snapshot: `armed` is how many calls are armed now, the rest counts from the beginning.

    `executed` are forwards that compiled code answered, `eager` those that it did not, by reason; `refused`
    are calls that were not armed, or are no more, by reason.
    """

    armed: int = 0
    executed: int = 0
    eager: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CompiledReport:
    """What answered the forwards of one request; `cells` are the keys of the compiled calls that ran."""

    cells: tuple[str, ...] = ()
    executed: int = 0
    eager: Mapping[str, int] = field(default_factory=dict)


class Tally:
    """Running counts; safe to read from any thread while steps run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._executed = 0
        self._eager: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()

    def executed(self, forwards: int = 1) -> None:
        """Compiled code answered."""
        with self._lock:
            self._executed += forwards

    def eager(self, reason: str) -> None:
        """A forward ran eagerly."""
        with self._lock:
            _count(self._eager, reason)

    def refused(self, reason: str) -> None:
        """A call was not armed, or is no more."""
        with self._lock:
            _count(self._refused, reason)

    def snapshot(self, *, armed: int) -> CompiledCounters:
        """The counts so far."""
        with self._lock:
            return CompiledCounters(
                armed=armed, executed=self._executed, eager=dict(self._eager), refused=dict(self._refused)
            )


def _count(counts: Counter[str], reason: str) -> None:
    # A reason quotes sizes; a card that runs for months must not collect them without end.
    counts[reason if reason in counts or len(counts) < REASONS_KEPT else OTHER] += 1
