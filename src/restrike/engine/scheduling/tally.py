"""What the rounds of an engine have done, counted. Decides nothing."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from restrike.engine.scheduling.states import State


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """A snapshot: `steps` by component, `forwards` by how many steps they computed together.

    `alone_again` counts steps whose shared forward failed and which were then run one by one; `ended` the
    requests by how they ended; `running` and `waiting` those that have not.
    """

    rounds: int
    steps: Mapping[str, int]
    forwards: Mapping[int, int]
    alone_again: int
    ended: Mapping[State, int]
    running: int
    waiting: int


class Tally:
    """Counts what all threads of an engine do."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rounds = self._alone_again = 0
        self._steps: Counter[str] = Counter()
        self._forwards: Counter[int] = Counter()
        self._ended: Counter[State] = Counter()

    def round(self) -> None:
        """A round began."""
        with self._lock:
            self._rounds += 1

    def forward(self, component: str, steps: int) -> None:
        """So many steps were computed as one."""
        with self._lock:
            self._forwards[steps] += 1
            self._steps[component] += steps

    def alone_again(self, steps: int) -> None:
        """So many steps could not be computed as one."""
        with self._lock:
            self._alone_again += steps

    def ended(self, state: State) -> None:
        """A request ended."""
        with self._lock:
            self._ended[state] += 1

    def snapshot(self, *, running: int, waiting: int) -> Metrics:
        """All counts at this moment."""
        with self._lock:
            return Metrics(
                rounds=self._rounds,
                steps=MappingProxyType(dict(self._steps)),
                forwards=MappingProxyType(dict(sorted(self._forwards.items()))),
                alone_again=self._alone_again,
                ended=MappingProxyType(dict(self._ended)),
                running=running,
                waiting=waiting,
            )
