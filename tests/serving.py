"""A real server of a test run: `restrike serve` in a process of its own, with one worker, on a free port."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

START_S = 120.0
STOP_S = 60.0


@dataclass(frozen=True)
class Server:
    """Its address, its data folder, and its process."""

    url: str
    data: Path
    process: subprocess.Popen[str]

    def stop(self) -> tuple[int, str]:
        """Interrupt it as Ctrl-C does, and wait; its exit code and what it said on stderr."""
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=STOP_S)
        return self.process.returncode, _said(self.data).read_text()


def _said(data: Path) -> Path:
    """Where a server's stderr goes: a pipe that nobody reads would stop a server that has much to say."""
    return data.parent / f"{data.name}.stderr"


def begun(data: Path, *options: str) -> Server:
    """Start a server and wait until it is ready; a server that does not start fails with what it said."""
    with _said(data).open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "restrike", "serve", "--port", "0", "--data", str(data), *options],
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            cwd=data.parent,
            env={**os.environ, "RESTRIKE_STORE": str(data.parent / "store")},
        )
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], START_S)
    line = process.stdout.readline() if ready else ""
    if not line.startswith("listening on "):
        process.kill()
        process.communicate()
        raise AssertionError(line + _said(data).read_text())
    return Server(line.removeprefix("listening on ").strip(), data, process)


@contextmanager
def served(data: Path, *options: str) -> Iterator[Server]:
    """A server for a block; it is killed if the block did not stop it."""
    server = begun(data, *options)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.send_signal(signal.SIGINT)
            try:
                server.process.communicate(timeout=STOP_S)
            except subprocess.TimeoutExpired:
                server.process.kill()
                server.process.communicate()


def until(is_so: Callable[[], object], wait_s: float = 60.0) -> None:
    """Return when a call gives something true; fails when it takes too long."""
    end_s = time.monotonic() + wait_s
    while not is_so():
        assert time.monotonic() < end_s
        time.sleep(0.02)
