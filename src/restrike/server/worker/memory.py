"""What a worker's process takes of main memory, and whether it grew by more than weights explain."""

from __future__ import annotations

import os
from pathlib import Path

_WARM_UP_JOBS = 3
"""Libraries allocate for good in the first jobs; growth is counted from here."""


def rss_bytes(proc: Path = Path("/proc/self/statm")) -> int:
    """The resident bytes of this process; 0 where the system does not tell."""
    try:
        return int(proc.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


class Growth:
    """Measures after each job what the process holds beside weights, and compares."""

    def __init__(self, bound_bytes: int) -> None:
        self._bound_bytes = bound_bytes
        self._jobs = 0
        self._base_bytes = 0

    def exceeded(self, rss: int, weights_bytes: int) -> bool:
        """Note the bytes after a job; whether they grew beyond the bound since the first few."""
        self._jobs += 1
        beside = max(rss - weights_bytes, 0)
        if self._jobs <= _WARM_UP_JOBS:
            self._base_bytes = max(self._base_bytes, beside)
            return False
        return beside - self._base_bytes > self._bound_bytes


def rank_for_oom(score: int) -> None:
    """Offer this process to the kernel when memory runs out, before processes of a lower score."""
    try:
        Path("/proc/self/oom_score_adj").write_text(str(score))
    except OSError:
        return
