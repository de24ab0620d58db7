"""Tasks that do to a worker what models do on a bad day. Given to workers as code of the operator's own."""

from __future__ import annotations

import os
import resource
import signal
import time
from pathlib import Path
from typing import Any

from restrike.workflow.tasks.registry import task


@task("peril.die", epoch="1", side_effects=True)
def die(times: int, counter: str, value: Any = None) -> str:
    """Kill this process by SIGKILL the first so many times that this is called, counted in a file."""
    path = Path(counter)
    with path.open("a") as file:
        file.write("x")
    if path.stat().st_size <= times:
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


@task("peril.keep", epoch="1")
def keep(value: Any) -> Any:
    """Give back what it got, as a task without effects does."""
    return value


@task("peril.sleep", epoch="1", side_effects=True)
def sleep(seconds: float, value: Any = None) -> float:
    """Take so long, deaf to everything, as a model does that loads."""
    time.sleep(seconds)
    return seconds


@task("peril.freeze", epoch="1", side_effects=True)
def freeze(counter: str, value: Any = None) -> str:
    """Stop this process as a whole, the first time."""
    path = Path(counter)
    if not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGSTOP)
    return "thawed"


@task("peril.grow", epoch="1", side_effects=True)
def grow(n_bytes: int) -> int:
    """Take memory for good."""
    _KEPT.append(bytearray(os.urandom(1024)) * (n_bytes // 1024))
    return n_bytes


@task("peril.exhaust", epoch="1", side_effects=True)
def exhaust(value: Any = None) -> None:
    """Run out of memory as Python tells it."""
    raise MemoryError("no more")


@task("peril.starve", epoch="1", side_effects=True)
def starve(n_bytes: int) -> int:
    """Ask for memory that the system does not give to this process any more."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    had_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (had_bytes + n_bytes // 4, before[1]))
    try:
        return len(bytearray(n_bytes))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


_KEPT: list[bytearray] = []
