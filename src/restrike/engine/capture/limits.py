"""What captures may cost, and by how much a replay must win. Values only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class CaptureLimits:
    """The limits of one card's captures.

    A graph is armed when the median of paired runs shows it at least `min_speedup` times as fast as eager,
    with all that a replay needs, and at most a quarter of them slower; `measure_s` bounds what that measuring
    takes, `max_capture_s` what capturing and proving one signature takes, and `max_graphs` and `max_bytes`
    what is kept at a time.
    """

    min_speedup: float = 1.02
    max_graphs: int = 32
    max_bytes: int = 4 << 30
    max_capture_s: float = 120.0
    measure_s: float = 0.25

    @property
    def max_signatures(self) -> int:
        """How many signatures are remembered, with or without a graph."""
        return 8 * self.max_graphs
