"""What captures did and did not do, counted by reason. Counts only; decides nothing."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from restrike.engine.reasons import count, said


@dataclass(frozen=True, kw_only=True)
class Break:
    """Why a step ran eagerly: `kind` is one of a few words, `detail` what is particular to this step.

    A `passing` one ends by itself with the next steps of the same signature.
    """

    kind: str
    detail: str = ""
    passing: bool = False

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}" if self.detail else self.kind


def kinds(breaks: Mapping[str, int]) -> dict[str, int]:
    """Breaks that were told as texts, counted by their kind alone."""
    found: Counter[str] = Counter()
    for reason, times in breaks.items():
        found[reason.partition(": ")[0]] += times
    return dict(found)


DISARMED = "disarmed"
"""The kind of a break for a graph that was proved and does not pay."""
WARMING = Break(kind="warming", passing=True)
PROVING = Break(kind="proving", passing=True)


@dataclass(frozen=True, kw_only=True)
class CaptureCounters:
    """A snapshot: `graphs`, `armed` and `bytes` are what is held now, the rest counts from the beginning.

    `armed` are those graphs that answer; the others are still to be proved.
    """

    captures: int = 0
    replays: int = 0
    eager_breaks: Mapping[str, int] = field(default_factory=dict)
    evictions: Mapping[str, int] = field(default_factory=dict)
    graphs: int = 0
    armed: int = 0
    bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class CaptureReport:
    """What captures did for one request: steps answered by replays, and eager ones by reason.

    `graphs` and `graph_bytes` are what its card held in the end, for all requests.
    """

    backend: str | None
    replays: int
    eager_breaks: Mapping[str, int]
    graphs: int
    graph_bytes: int

    @property
    def told(self) -> str:
        """One line for people."""
        steps = self.replays + sum(self.eager_breaks.values())
        name = f"capture {self.backend}" if self.backend else "capture"
        eager = f"; eager: {said(self.eager_breaks)}" if self.eager_breaks else ""
        return f"{name} answered {self.replays} of {steps} steps{eager}"


class Tally:
    """Running counts; safe to read from any thread while steps run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._captures = self._replays = 0
        self._breaks: Counter[str] = Counter()
        self._evictions: Counter[str] = Counter()

    def captured(self) -> None:
        """A graph was made."""
        with self._lock:
            self._captures += 1

    def replayed(self) -> None:
        """A step was answered by a replay."""
        with self._lock:
            self._replays += 1

    def broke(self, reason: Break) -> None:
        """A step ran eagerly."""
        with self._lock:
            count(self._breaks, str(reason), reason.kind)

    def evicted(self, reason: str) -> None:
        """A graph was let go."""
        with self._lock:
            count(self._evictions, reason)

    def snapshot(self, *, graphs: int = 0, armed: int = 0, bytes_held: int = 0) -> CaptureCounters:
        """The counts so far."""
        with self._lock:
            return CaptureCounters(
                captures=self._captures,
                replays=self._replays,
                eager_breaks=dict(self._breaks),
                evictions=dict(self._evictions),
                graphs=graphs,
                armed=armed,
                bytes=bytes_held,
            )
