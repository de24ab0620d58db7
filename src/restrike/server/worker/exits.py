"""Why a worker process ended, from what its parent can see. It decides no job's fate."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from restrike.server.worker.lines import ORPHANED
from restrike.server.worker.options import RECYCLED


class Cause(StrEnum):
    """What ended a worker."""

    STOPPED = "stopped"
    RECYCLED = "recycled"
    CRASHED = "crashed"
    OUT_OF_MEMORY = "out of memory"
    HUNG = "hung"
    CANCELLED = "cancelled"
    """Its job did not stop in time, so the server ended the process."""

    @property
    def is_death(self) -> bool:
        """Whether the process died of what it was doing, as far as anyone can tell."""
        return self in (Cause.CRASHED, Cause.OUT_OF_MEMORY, Cause.HUNG)


@dataclass(frozen=True, kw_only=True)
class Exit:
    """How a worker ended; `reason` is a line for people."""

    cause: Cause
    reason: str


def exit_of(status: int, ended_for: Exit | None, *, was_told: bool, oom_kills: int) -> Exit:
    """The exit of a process by its status as `Popen` has it; `ended_for` is why the server killed it.

    `was_told` says that it had the order to end, `oom_kills` how many processes the kernel killed for lack of
    memory while it ran.
    """
    if ended_for is not None:
        return ended_for
    if status == 0 and not was_told:
        return Exit(cause=Cause.CRASHED, reason="it ended by itself: what it ran called for that")
    if status == 0:
        return Exit(cause=Cause.STOPPED, reason="it was told to end")
    if status == RECYCLED:
        return Exit(cause=Cause.RECYCLED, reason="it had grown, or its device gave errors")
    if status == ORPHANED:
        return Exit(cause=Cause.STOPPED, reason="its server closed the line")
    if status == -signal.SIGKILL and oom_kills > 0:
        return Exit(
            cause=Cause.OUT_OF_MEMORY, reason="the kernel killed it with SIGKILL when main memory ran out"
        )
    if status < 0:
        return Exit(cause=Cause.CRASHED, reason=f"it died by {_name(-status)}")
    return Exit(cause=Cause.CRASHED, reason=f"it ended with status {status}; its log says why")


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def oom_kills(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """How many processes the kernel has killed for lack of memory, here or in this cgroup; 0 if untold."""
    return sum(_counted(path) for path in (proc / "vmstat", cgroups / "memory.events"))


def _counted(path: Path) -> int:
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return 0
    return sum(int(words[1]) for words in lines if len(words) == 2 and words[0] == "oom_kill")
