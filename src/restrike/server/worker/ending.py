"""How an attempt ended, as the queue keeps it: its state, and the class, reason and remedy of a failure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from restrike.errors import RULES, Crashed, RestrikeError, Retry, rule_of
from restrike.server.jobs.model import Failure, JobState, Outcome

_REMEDIES = {
    Retry.NEVER: "change what the reason names, and submit it as a new job",
    Retry.NEW_BUDGET: "ask for less, or make room as the reason says, and rerun the job",
    Retry.BOUNDED: "look at the log of the worker; rerun the job, which goes on with the steps that are kept",
}


def succeeded(run: str, record: Mapping[str, Any]) -> Outcome:
    """A run that ended well."""
    return Outcome(state=JobState.SUCCEEDED, run=run, record=record)


def cancelled(record: Mapping[str, Any]) -> Outcome:
    """A run that was asked to stop, and did."""
    return Outcome(state=JobState.CANCELLED, record=record)


def failed(error: RestrikeError, step: str | None, record: Mapping[str, Any]) -> Outcome:
    """A run that failed at a step, or before any."""
    failure = Failure(
        kind=class_of(error),
        reason=error.message,
        step=step,
        remedy=_REMEDIES[rule_of(error).retry],
    )
    return Outcome(state=JobState.FAILED, failure=failure, record=record)


def class_of(error: RestrikeError) -> str:
    """The name of the nearest class in the table of failures."""
    return next((kind.__name__ for kind in type(error).__mro__ if kind in RULES), Crashed.__name__)
