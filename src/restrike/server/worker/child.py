"""A worker as its server holds it: the process, its two lines, and what can be seen of it from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from restrike.server.worker.exits import Exit, exit_of, oom_kills
from restrike.server.worker.lines import DRAIN, STOP
from restrike.server.worker.options import WorkerOptions

_TICKS_HZ = os.sysconf("SC_CLK_TCK")
_SETTLE_S = 1.0


class Child:
    """One worker process, in a session and process group of its own."""

    def __init__(self, options: WorkerOptions, log: Path, environment: Mapping[str, str]) -> None:
        self.options = options
        self.ended_for: Exit | None = None
        self.started_s = time.monotonic()
        self._oom_kills, self._was_told = oom_kills(), False
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "restrike.server.worker", *options.words()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=dict(environment),
                start_new_session=True,
            )
        os.set_blocking(self.nudges.fileno(), False)
        os.set_blocking(self._orders.fileno(), False)

    @property
    def name(self) -> str:
        """The worker's id in the database."""
        return self.options.name

    @property
    def pid(self) -> int:
        """The number of its process, and of the group that its own children are in."""
        return self._process.pid

    @property
    def nudges(self) -> IO[bytes]:
        """Readable when something happened, and at its end when the process is gone."""
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def _orders(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    def order(self, order: bytes) -> None:
        """Give an order; one that does not read has orders enough."""
        self._was_told = self._was_told or order in (DRAIN, STOP)
        with suppress(OSError):
            os.write(self._orders.fileno(), order)

    def drained(self) -> bool:
        """Read all nudges; False when the line is at its end."""
        try:
            return os.read(self.nudges.fileno(), 4096) != b""
        except BlockingIOError:
            return True

    def kill(self, why: Exit) -> None:
        """End the process and all that it started, now."""
        self.ended_for = self.ended_for or why
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def exit(self) -> Exit | None:
        """How it ended, None while it runs. What it left running is killed."""
        if self._process.returncode is None:
            # Looked at and not reaped: until then nobody else has its number.
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return None
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        return exit_of(
            self._process.wait(),
            self.ended_for,
            was_told=self._was_told,
            oom_kills=oom_kills() - self._oom_kills,
        )

    def settle(self) -> None:
        """Give a process that closed its line a moment to be gone."""
        end_s = time.monotonic() + _SETTLE_S
        while self.exit() is None and time.monotonic() < end_s:
            time.sleep(0.002)

    def close(self) -> None:
        """Close the lines of a worker that has ended."""
        self.nudges.close()
        with suppress(OSError):
            self._orders.close()

    def cpu_s(self) -> float:
        """The seconds that its threads have computed; 0.0 where that cannot be told."""
        try:
            words = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(words[11]) + int(words[12])) / _TICKS_HZ
