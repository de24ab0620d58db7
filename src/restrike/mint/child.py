"""The mint itself, in a process of its own: `python -m restrike.mint.child REQUEST [--leash FD]`.

It takes one file and leaves events, a report and an exit code; whatever happens, its last act is the report.
It ends with its parent when it holds the other end of the leash.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from restrike.errors import Cancelled, RestrikeError, rule_of
from restrike.keys import Digest
from restrike.mint.events import EntryFailed, EntryLanded, EventLog, MintPhase, Planned, read_events
from restrike.mint.outcome import Outcome, outcome_of
from restrike.mint.report import Ending, report_of
from restrike.mint.request import MintRequest, read_request
from restrike.mint.shortfalls import placed

if TYPE_CHECKING:
    from restrike.mint.adoption.marking import Marking
    from restrike.mint.landing import Landing
    from restrike.mint.preparing import Ready
    from restrike.mint.warm import Observed

NICENESS = 10


def main(arguments: list[str]) -> int:
    """Mint what the file asks for; the exit code is that of the outcome."""
    asked = argparse.ArgumentParser(prog="restrike.mint.child")
    asked.add_argument("request", type=Path)
    asked.add_argument("--leash", type=int)
    given = asked.parse_args(arguments)
    try:
        request = read_request(given.request)
    except RestrikeError as error:
        sys.stderr.write(f"restrike: {error.message}\n")
        return rule_of(error).exit_code
    _lower(request)
    if given.leash is not None:
        _hold(given.leash, request)
    return run(request).exit_code


def run(request: MintRequest) -> Outcome:
    """Mint in this process; whatever happens, a report lies there when it returns."""
    began = time.perf_counter()
    request.events.unlink(missing_ok=True)
    request.report.unlink(missing_ok=True)
    log = EventLog(request.events)
    try:
        ending = _mint(request, log)
    except BaseException as error:  # an interrupt too must leave its report
        failure = Cancelled("interrupted") if isinstance(error, KeyboardInterrupt) else placed(error)
        ending = Ending(outcome=outcome_of(failure), kind=type(failure).__name__, message=failure.message)
        _tell(error, failure)
    seconds = time.perf_counter() - began
    report_of(request, read_events(request.events), ending, seconds).write(request.report)
    return ending.outcome


def _tell(error: BaseException, failure: RestrikeError) -> None:
    """What is not understood is shown in full to who looks into the child's own output."""
    if outcome_of(failure) is Outcome.CRASHED:
        import traceback

        traceback.print_exception(error)


def _mint(request: MintRequest, log: EventLog) -> Ending:
    from restrike.mint.preparing import prepare

    with log.during(MintPhase.LOAD):
        ready = prepare(request)
        with ready.resident.turn:
            for name in ready.components():
                ready.resident.component(name)
    # The device's turn is held to the end, so that no component is moved away under its cell.
    with ready.resident.turn:
        with log.during(MintPhase.WARMUP_FORWARD):
            entries = ready.observe()
        log.add(Planned(entries=tuple(entry.name for entry in entries)))
        failed = _land_all(request, log, ready, entries)
    with log.during(MintPhase.FINALIZE):
        return _ending(entries, failed)


def _land_all(
    request: MintRequest, log: EventLog, ready: Ready, entries: tuple[Observed, ...]
) -> list[RestrikeError]:
    """Land every entry, first needed first; what went wrong with each that could not."""
    from restrike.mint.adoption.marking import Marking
    from restrike.mint.environment import EnvironmentSeal
    from restrike.mint.landing import Landing
    from restrike.mint.store.store import CellStore

    landing = Landing(
        request=request,
        store=CellStore(Path(request.store)),
        log=log,
        options=ready.options,
        tolerance=ready.tolerance,
        environment=EnvironmentSeal(),
    )
    failed: list[RestrikeError] = []
    marking = Marking(request, ready)
    for index, seen in enumerate(entries):
        try:
            _land(landing, ready, marking, seen, Path(request.scratch) / f"entry-{index}")
        except Exception as error:
            failed.append(_told(log, seen.name, error))
    return failed


def _land(landing: Landing, ready: Ready, marking: Marking, seen: Observed, scratch: Path) -> None:
    scratch.mkdir(parents=True, exist_ok=True)
    component = ready.resident.component(seen.target.component)
    key, how = landing.land(component, seen, ready.subject, scratch)
    marking.landed(seen, Digest(key), how)
    if how != "keyed":
        landing.log.add(EntryLanded(entry=seen.name, key=key, how=how))


def _told(log: EventLog, entry: str, error: Exception) -> RestrikeError:
    """Note that an entry failed; memory or time that ran out ends the mint, for the next would fare alike."""
    failure = placed(error)
    outcome = outcome_of(failure)
    if outcome in (Outcome.SHORTFALL, Outcome.CANCELLED):
        raise failure from error
    _tell(error, failure)
    log.add(
        EntryFailed(
            entry=entry,
            phase=log.phase or MintPhase.TRACE_GRAPH,
            outcome=outcome,
            kind=type(failure).__name__,
            message=failure.message,
        )
    )
    return failure


def _ending(entries: tuple[Observed, ...], failed: list[RestrikeError]) -> Ending:
    """Ok when anything landed, for what failed is told; else the end is that of the first failure."""
    if len(failed) < len(entries):
        return Ending(outcome=Outcome.OK)
    first = next((error for error in failed if outcome_of(error) is Outcome.CRASHED), failed[0])
    return Ending(outcome=outcome_of(first), kind=type(first).__name__, message=first.message)


def _lower(request: MintRequest) -> None:
    """Take a back seat, and no more memory than the budget."""
    with suppress(OSError):
        os.nice(NICENESS)
    limit_bytes = request.budget.memory_bytes
    if limit_bytes is None:
        return
    resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, limit_bytes))
    if request.target.kind == "cuda":
        import torch

        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit_bytes / total))


def _hold(leash: int, request: MintRequest) -> None:
    """End this process and all that it started when the other end of the leash closes, and report it."""
    began = time.perf_counter()

    def wait() -> None:
        while os.read(leash, 1):
            pass
        with suppress(RestrikeError):
            _orphaned(request, time.perf_counter() - began)
        # A group of its own: what it started (a compiler) goes with it, its parent's does not.
        if os.getpgid(0) == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(Outcome.CANCELLED.exit_code)

    threading.Thread(target=wait, name="leash", daemon=True).start()


def _orphaned(request: MintRequest, seconds: float) -> None:
    """Report for a parent that is no more and so cannot."""
    if request.report.exists():
        return
    ending = Ending(outcome=Outcome.CANCELLED, kind="Orphaned", message="its parent has gone")
    report_of(request, read_events(request.events), ending, seconds).write(request.report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
