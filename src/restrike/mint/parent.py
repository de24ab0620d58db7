"""Starts mint children and watches them: by evidence of work, not by the clock.

No limit of time unless a budget sets one. What it ends, it ends with all that was started there.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from restrike.errors import RestrikeError
from restrike.keys import Digest
from restrike.mint.cell.host import this_host
from restrike.mint.classify import Stop, Verdict, classify
from restrike.mint.environment import child_environment
from restrike.mint.events import MintEvent, read_events
from restrike.mint.evidence import Evidence, evidence, usage
from restrike.mint.outcome import Outcome
from restrike.mint.report import MintReport, read_report, report_of
from restrike.mint.request import MintRequest
from restrike.mint.store.store import CellStore
from restrike.mint.targets import compiler

STALLED_S = 300.0
"""How long a mint may show no event, no processor time and no new file."""

_LOOK_S = 0.2
_GRACE_S = 3.0


@dataclass(frozen=True, kw_only=True)
class Pulse:
    """What a mint shows between its events.

    Seconds since the attempt began and since it last showed work, and those after which each ends it
    (`budget_s` None: never); bytes that its processes hold now.
    """

    elapsed_s: float
    budget_s: float | None
    quiet_s: float
    stalled_s: float
    memory_bytes: int


class Watcher(Protocol):
    """Who wants to know what happens, and may ask to stop."""

    def show(self, event: MintEvent) -> None:
        """Called for each event, in order."""
        ...

    def working(self, pulse: Pulse) -> None:
        """Called several times a second while the mint goes on."""
        ...

    def cancelled(self) -> bool:
        """Asked several times a second."""
        ...


class Unwatched:
    """Nobody looks and nobody cancels."""

    def show(self, event: MintEvent) -> None:
        """Nothing is shown."""

    def working(self, pulse: Pulse) -> None:
        """Nothing is shown."""

    def cancelled(self) -> bool:
        """Never."""
        return False


@dataclass(frozen=True, kw_only=True)
class Minted:
    """A mint that came to its end: the last report, and how many attempts it took."""

    report: MintReport
    attempts: int


def mint(request: MintRequest, watcher: Watcher | None = None, *, stalled_s: float = STALLED_S) -> Minted:
    """Mint in child processes until one ends well, or no further attempt is worth it.

    A refusal is final at once; what ran short is tried once more with a larger budget; a child that a signal
    killed is tried once more as it was. Entries that landed stay landed.

    Raises:
        Shortfall, Refused: the scratch folder cannot be written.
    """
    watcher = watcher or Unwatched()
    attempt = request
    while True:
        report, verdict = _attempt(attempt, watcher, stalled_s)
        if attempt.attempt >= verdict.attempts:
            return Minted(report=report, attempts=attempt.attempt)
        scratch = Path(request.scratch) / f"attempt-{attempt.attempt + 1}"
        again = attempt.again(scratch)
        grows = verdict.ending.outcome is Outcome.SHORTFALL
        attempt = again if grows else replace(again, budget=attempt.budget)


def _attempt(request: MintRequest, watcher: Watcher, stalled_s: float) -> tuple[MintReport, Verdict]:
    for name in ("tmp", "inductor", "triton"):
        (Path(request.scratch) / name).mkdir(parents=True, exist_ok=True)
    request.write()
    began = time.perf_counter()
    with _child(request) as child:
        stop = _Watch(request, child, watcher, stalled_s).wait()
    report = read_report(request.report)
    verdict = classify(child.returncode, report, verified=_verified(request, report), stop=stop)
    if report is None or report.ending != verdict.ending:
        # The child could not say it: it is said for it, from what it left.
        seconds = time.perf_counter() - began
        report = report_of(request, read_events(request.events), verdict.ending, seconds)
        report.write(request.report)
    return report, verdict


@contextmanager
def _child(request: MintRequest) -> Iterator[subprocess.Popen[bytes]]:
    """The child in a process group of its own, on a leash that closes when this process ends in any way."""
    read, write = os.pipe()
    scratch = Path(request.scratch)
    environment = child_environment(
        os.environ, scratch=scratch, threads=request.budget.threads, compiler=compiler(os.environ)
    )
    command = [sys.executable, "-P", "-m", "restrike.mint.child", str(request.file), "--leash", str(read)]
    with (scratch / "output.txt").open("wb") as output:
        child = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(read,),
            start_new_session=True,
        )
    os.close(read)
    try:
        yield child
    finally:
        end_group(child)
        os.close(write)


def end_group(child: subprocess.Popen[bytes]) -> None:
    """End whatever is left of a child's process group, and wait for the child itself."""
    # The child is not reaped before, so its number, which is the group's, is nobody else's.
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


class _Watch:
    """Looks at one child until it ends or has to be ended."""

    def __init__(
        self,
        request: MintRequest,
        child: subprocess.Popen[bytes],
        watcher: Watcher,
        stalled_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._request, self._child, self._watcher = request, child, watcher
        self._stalled_s, self._clock = stalled_s, clock
        self._began = self._moved = clock()
        self._seen: Evidence | None = None
        self._memory_bytes = self._shown = 0

    def wait(self) -> Stop | None:
        """Why the child has to be ended; None when it ended by itself."""
        while _runs(self._child):
            stop = self._reason()
            if stop is not None:
                self._interrupt(stop)
                self._show()
                return stop
            self._show()
            self._watcher.working(self._pulse())
            time.sleep(_LOOK_S)
        self._show()
        return None

    def _show(self) -> None:
        events = read_events(self._request.events)
        for event in events[self._shown :]:
            self._watcher.show(event)
        self._shown = len(events)

    def _reason(self) -> Stop | None:
        now, budget, used = self._clock(), self._request.budget, usage(self._child.pid)
        found = evidence(used, self._request.events, Path(self._request.scratch))
        self._memory_bytes = used.memory_bytes
        if found != self._seen:
            self._seen, self._moved = found, now
        if self._watcher.cancelled():
            return Stop.CANCELLED
        if budget.seconds is not None and now - self._began > budget.seconds:
            return Stop.SECONDS
        if budget.memory_bytes is not None and used.memory_bytes > budget.memory_bytes:
            return Stop.MEMORY
        return Stop.STALLED if now - self._moved > self._stalled_s else None

    def _pulse(self) -> Pulse:
        now = self._clock()
        return Pulse(
            elapsed_s=now - self._began,
            budget_s=self._request.budget.seconds,
            quiet_s=now - self._moved,
            stalled_s=self._stalled_s,
            memory_bytes=self._memory_bytes,
        )

    def _interrupt(self, stop: Stop) -> None:
        """Let a cancelled child write its own report; what is out of its budget gets no more time."""
        if stop is not Stop.CANCELLED:
            return
        with suppress(ProcessLookupError):
            self._child.send_signal(signal.SIGINT)
        limit = self._clock() + _GRACE_S
        while _runs(self._child) and self._clock() < limit:
            time.sleep(_LOOK_S / 4)


def _runs(child: subprocess.Popen[bytes]) -> bool:
    """Whether the child has not ended yet; it is not reaped, so that its number stays its group's."""
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def _verified(request: MintRequest, report: MintReport | None) -> bool:
    """Whether all that is said to have landed is in the store, every byte of it."""
    if report is None:
        return False
    if request.keys_only:
        return bool(report.keys)
    store, host = CellStore(Path(request.store)), this_host(request.target)
    try:
        for landed in report.landed:
            with store.open(Digest(landed.key), host):
                pass
    except RestrikeError:
        return False
    return bool(report.landed)
