"""What a process group shows of itself: processor time, memory, files. It reads, and signals nothing.

Only Linux tells; elsewhere the time and memory of the group are unknown, and files and events remain.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Seconds of processor time that a group used, and bytes of memory that it holds now."""

    cpu_s: float
    memory_bytes: int


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Signs of work: any difference between two of them is one."""

    cpu_s: float
    events_bytes: int
    files: int


def usage(group: int) -> Usage:
    """All living processes of a group together; zero for none."""
    found = list(_processes(group))
    return Usage(
        cpu_s=sum(each.cpu_s for each in found), memory_bytes=sum(each.memory_bytes for each in found)
    )


def evidence(used: Usage, events: Path, scratch: Path) -> Evidence:
    """What a mint shows now; processor time in whole tenths, for a sleeper too is woken now and then."""
    return Evidence(cpu_s=round(used.cpu_s, 1), events_bytes=_size(events), files=_count(scratch))


def _processes(group: int) -> Iterator[Usage]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name may hold anything; what follows its last bracket is numbers. See proc(5).
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            times = (int(fields[index]) for index in (11, 12, 13, 14))
            yield Usage(cpu_s=sum(times) * _TICK_S, memory_bytes=int(fields[21]) * _PAGE_BYTES)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _count(folder: Path) -> int:
    return sum(len(names) for _, _, names in os.walk(folder))
