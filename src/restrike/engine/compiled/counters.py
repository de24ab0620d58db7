"""What compiled calls did and did not do, counted by reason. Counts only; decides nothing."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from restrike.engine.reasons import count, said

_KEY_SHOWN = 12


@dataclass(frozen=True, kw_only=True)
class CompiledCounters:
    """A snapshot: `armed` is how many calls are armed now, the rest counts from the beginning.

    `executed` are forwards of requests that compiled code answered, `eager` those that it did not, by reason;
    `refused` are calls that were not armed, or are no more, by reason. What proves a cell or a graph is none
    of them.
    """

    armed: int = 0
    executed: int = 0
    eager: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CompiledReport:
    """What answered the forwards of one request: each of the `cells` so many, eager by reason the others."""

    cells: Mapping[str, int] = field(default_factory=dict)
    eager: Mapping[str, int] = field(default_factory=dict)

    @property
    def executed(self) -> int:
        """How many forwards compiled code answered."""
        return sum(self.cells.values())

    def told(self, eager: Mapping[str, int]) -> str:
        """One line for people, with these of the reasons why forwards were eager."""
        forwards = self.executed + sum(self.eager.values())
        cells = ", ".join(f"{key[:_KEY_SHOWN]} {count}" for key, count in self.cells.items())
        return (
            f"cells answered {self.executed} of {forwards} forwards"
            + (f" ({cells})" if cells else "")
            + (f"; eager: {said(eager)}" if eager else "")
        )


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
            count(self._eager, reason)

    def refused(self, reason: str) -> None:
        """A call was not armed, or is no more."""
        with self._lock:
            count(self._refused, reason)

    def snapshot(self, *, armed: int) -> CompiledCounters:
        """The counts so far."""
        with self._lock:
            return CompiledCounters(
                armed=armed, executed=self._executed, eager=dict(self._eager), refused=dict(self._refused)
            )
