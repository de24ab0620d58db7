"""How a mint can end, and how that leaves the process. The table is that of `restrike.errors`."""

from __future__ import annotations

from enum import StrEnum

from restrike.errors import RULES, Cancelled, Crashed, Refused, RestrikeError, Shortfall


class Outcome(StrEnum):
    """The five ends, in both recipes."""

    OK = "ok"
    CRASHED = "crashed"
    REFUSED = "refused"
    SHORTFALL = "shortfall"
    CANCELLED = "cancelled"

    @property
    def exit_code(self) -> int:
        """What the process leaves with."""
        return 0 if self is Outcome.OK else RULES[_CLASSES[self]].exit_code


_CLASSES: dict[Outcome, type[RestrikeError]] = {
    Outcome.CRASHED: Crashed,
    Outcome.REFUSED: Refused,
    Outcome.SHORTFALL: Shortfall,
    Outcome.CANCELLED: Cancelled,
}


def outcome_of(error: RestrikeError) -> Outcome:
    """The end that an error makes, by its class."""
    return next((outcome for outcome, cls in _CLASSES.items() if isinstance(error, cls)), Outcome.CRASHED)


def error_of(outcome: Outcome, message: str) -> RestrikeError:
    """The error that a failed mint is to whoever asked for it."""
    return _CLASSES[outcome](message)
