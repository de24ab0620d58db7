"""Crash, hang, lack of memory and orderly ends are told apart by what a parent can see."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from restrike.server.worker.exits import Cause, Exit, exit_of, oom_kills
from restrike.server.worker.lines import ORPHANED
from restrike.server.worker.options import RECYCLED

_HUNG = Exit(cause=Cause.HUNG, reason="silent")


@pytest.mark.parametrize(
    ("status", "ended_for", "told", "kills", "cause", "says"),
    [
        (0, None, True, 0, Cause.STOPPED, "told to end"),
        (0, None, False, 0, Cause.CRASHED, "by itself"),
        (RECYCLED, None, False, 0, Cause.RECYCLED, "grown"),
        (ORPHANED, None, False, 0, Cause.STOPPED, "closed the line"),
        (1, None, True, 0, Cause.CRASHED, "status 1"),
        (-signal.SIGSEGV, None, False, 1, Cause.CRASHED, "SIGSEGV"),
        (-signal.SIGKILL, None, False, 0, Cause.CRASHED, "SIGKILL"),
        (-signal.SIGKILL, None, False, 1, Cause.OUT_OF_MEMORY, "main memory ran out"),
        (-signal.SIGKILL, _HUNG, False, 1, Cause.HUNG, "silent"),
        (-250, None, False, 0, Cause.CRASHED, "signal 250"),
    ],
)
def test_each_end_has_its_cause(
    status: int, ended_for: Exit | None, told: bool, kills: int, cause: Cause, says: str
) -> None:
    found = exit_of(status, ended_for, was_told=told, oom_kills=kills)

    assert found.cause is cause
    assert says in found.reason


def test_only_what_a_worker_died_of_counts_against_its_job() -> None:
    assert {cause for cause in Cause if cause.is_death} == {
        Cause.CRASHED,
        Cause.OUT_OF_MEMORY,
        Cause.HUNG,
    }


def test_the_kernels_kills_are_counted_where_it_tells_them(tmp_path: Path) -> None:
    proc, cgroups = tmp_path / "proc", tmp_path / "cgroups"
    assert oom_kills(proc, cgroups) == 0
    for folder in (proc, cgroups):
        folder.mkdir()
    (proc / "vmstat").write_text("pgfault 12\noom_kill 2\n")
    (cgroups / "memory.events").write_text("oom 4\noom_kill 1\n")

    assert oom_kills(proc, cgroups) == 3
