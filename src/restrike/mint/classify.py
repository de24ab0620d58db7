"""The one classifier of how a mint child ended, for both recipes. Looks at evidence, never at words.

An exit of 0 that leaves no verified artifact is a crash, as is any ending that no report confirms.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from enum import StrEnum

from restrike.mint.outcome import Outcome
from restrike.mint.report import Ending, MintReport


class Stop(StrEnum):
    """Why the parent ended its child."""

    CANCELLED = "cancelled"
    SECONDS = "its seconds were spent"
    MEMORY = "its memory was spent"
    STALLED = "it showed no sign of work"


_STOPPED = {
    Stop.CANCELLED: Outcome.CANCELLED,
    Stop.SECONDS: Outcome.SHORTFALL,
    Stop.MEMORY: Outcome.SHORTFALL,
    Stop.STALLED: Outcome.CRASHED,
}


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What an attempt came to, and how many attempts such an ending is worth in all.

    A new attempt after a shortfall has a larger budget.
    """

    ending: Ending
    attempts: int


def classify(returncode: int, report: MintReport | None, *, verified: bool, stop: Stop | None) -> Verdict:
    """The verdict on a child that has ended.

    Args:
        returncode: as `subprocess` gives it, negative for a signal.
        report: what the child wrote last, None if it wrote none.
        verified: whether everything that the report says it landed is in the store and whole.
        stop: why the parent ended it, None if it did not.
    """
    if stop is not None:
        ending = Ending(outcome=_STOPPED[stop], kind="Stopped", message=f"ended by its parent: {stop}")
        return Verdict(ending=ending, attempts=2 if ending.outcome is Outcome.SHORTFALL else 1)
    if returncode < 0:
        return _crash(f"killed by {_signal(-returncode)}", "Signal", attempts=2)
    if report is None:
        return _crash(f"it left with {returncode} and no report", "NoReport", attempts=1)
    if report.ending.outcome.exit_code != returncode:
        said = report.ending.outcome
        return _crash(f"it left with {returncode}, and its report says {said}", "Contradiction", attempts=1)
    if report.ending.outcome is Outcome.OK and not verified:
        return _crash("it left with 0 and no verified artifact", "NoArtifact", attempts=1)
    return Verdict(ending=report.ending, attempts=2 if report.ending.outcome is Outcome.SHORTFALL else 1)


def _crash(message: str, kind: str, *, attempts: int) -> Verdict:
    return Verdict(ending=Ending(outcome=Outcome.CRASHED, kind=kind, message=message), attempts=attempts)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
