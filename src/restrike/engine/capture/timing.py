"""How fast a replay is against eager: paired runs in alternating order, within a bound of time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

LEAST_PAIRS, MOST_PAIRS = 3, 9
# For so many times the time that is set, a slow step is run again until there are the least pairs.
PATIENCE = 4
Clock = Callable[[], float]


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The seconds of one eager step and of one replay on the same inputs."""

    eager_s: float
    replay_s: float

    @property
    def speedup(self) -> float:
        """How many times as fast the replay was."""
        return self.eager_s / max(self.replay_s, 1e-9)


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Some pairs of one signature."""

    pairs: tuple[Pair, ...]

    @property
    def speedup(self) -> float:
        """The median over the pairs."""
        return median(pair.speedup for pair in self.pairs)

    @property
    def is_steady(self) -> bool:
        """Whether no more than a quarter of the pairs saw the replay slower."""
        return 4 * self._slower <= len(self.pairs)

    @property
    def _slower(self) -> int:
        return sum(pair.speedup < 1 for pair in self.pairs)

    def __str__(self) -> str:
        eager = median(pair.eager_s for pair in self.pairs) * 1e3
        replay = median(pair.replay_s for pair in self.pairs) * 1e3
        told = f"replay {replay:.2f} ms, eager {eager:.2f} ms, {self.speedup:.2f}x in {len(self.pairs)} pairs"
        return told if self.is_steady else f"{told}, slower in {self._slower} of them"


def measured(
    eager: Callable[[], object],
    replay: Callable[[], object],
    *,
    seconds: float,
    first: Pair,
    look_s: float = 0.0,
) -> Measurement:
    """Run pairs until `seconds` are spent, at most `MOST_PAIRS`; `first` counts when there is time for none.

    The first pair was timed while the graph was proved, when caches were cold. `look_s` is what finding the
    graph takes, which eager does not need.
    """
    pairs: list[Pair] = []
    spent = one = first.eager_s + first.replay_s
    while len(pairs) < MOST_PAIRS and spent + one <= seconds * (PATIENCE if len(pairs) < LEAST_PAIRS else 1):
        swapped = len(pairs) % 2 == 1
        times = [_seconds(run) for run in ((replay, eager) if swapped else (eager, replay))]
        eager_s, replay_s = reversed(times) if swapped else times
        pairs.append(Pair(eager_s=eager_s, replay_s=replay_s + look_s))
        spent += eager_s + replay_s
    return Measurement(pairs=tuple(pairs) or (first,))


def _seconds(run: Callable[[], object], clock: Clock = time.perf_counter) -> float:
    began = clock()
    run()
    return clock() - began
