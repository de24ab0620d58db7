"""What the past says of a job's main memory: a warning where the machine may run short, never a refusal."""

from __future__ import annotations

import os
from pathlib import Path

from restrike.server.routing import Likeness
from restrike.server.service import Service

FULL = 0.9
_GROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def memory_notice(service: Service, like: Likeness) -> str | None:
    """What to know of the main memory of work like this; None when it fits, or never ran here.

    The most that a worker's process took while it ran such a job counts, beside what all but the largest of
    the workers hold now: it will be that one's work, or takes the place of it.
    """
    took_bytes, total_bytes = service.measured.rss_bytes().get(like), main_memory_bytes()
    if took_bytes is None or total_bytes is None:
        return None
    held_bytes = [worker.report.rss_bytes for worker in service.workers.live()]
    beside_bytes = sum(held_bytes) - max(held_bytes, default=0)
    if took_bytes + beside_bytes <= FULL * total_bytes:
        return None
    beside = f", and other workers hold {_shown(beside_bytes)}" if beside_bytes else ""
    return (
        f"jobs like it took {_shown(took_bytes)} of main memory{beside}: "
        f"that is over {FULL:.0%} of the {_shown(total_bytes)} there are"
    )


def main_memory_bytes() -> int | None:
    """The main memory of this machine, or of the group that this process is in; None where none tells."""
    try:
        machine_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
    try:
        limit = _GROUP_LIMIT.read_text().strip()
    except OSError:
        return machine_bytes
    return min(machine_bytes, int(limit)) if limit.isdecimal() else machine_bytes


def _shown(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 30):.1f} GiB"
