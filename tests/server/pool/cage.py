"""A group of processes that the kernel lets have only so much memory, and kills of when they take more."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

_ROOTS = (
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
    (Path("/sys/fs/cgroup"), "memory.max"),
)
"""Where each version of cgroups keeps groups, and how each calls a group's limit."""


@dataclass(frozen=True)
class Cage:
    """One group. What a process had before it was put in does not count."""

    folder: Path

    def put(self, pid: int) -> None:
        """Put a process in; what it starts is in it too."""
        (self.folder / "cgroup.procs").write_text(str(pid))


@contextmanager
def caged(limit_bytes: int) -> Iterator[Cage]:
    """A group for a block; skips the test where this user may make none."""
    for root, limit in _ROOTS:
        folder = root / f"restrike-test-{os.getpid()}"
        with suppress(OSError):
            folder.mkdir()
        if (folder / limit).exists() and os.access(folder / limit, os.W_OK):
            break
        with suppress(OSError):
            folder.rmdir()
    else:
        pytest.skip("this user may make no cgroup with a limit of memory")
    try:
        (folder / limit).write_text(str(limit_bytes))
        yield Cage(folder)
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    end_s = time.monotonic() + 10.0
    while folder.exists() and time.monotonic() < end_s:
        with suppress(OSError):  # as long as one that was killed is not gone
            folder.rmdir()
        time.sleep(0.05)
