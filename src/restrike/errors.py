"""The failure tree and its one table: which class of failure is retried, exits and answers how.

Every failure that a user can meet is one of these types, with a message of one line. Nothing here decides
by the text of a message, and nothing imports another part of Restrike.
"""

from __future__ import annotations

import difflib
import errno
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path


class Retry(Enum):
    """What may be done again after a failure."""

    NEVER = "never"
    NEW_BUDGET = "once, with a larger budget"
    BOUNDED = "a few times, then quarantine"


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How one class of failure is treated at every border of the program."""

    retry: Retry
    exit_code: int
    http_status: int


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One fault of an input: `path` is its place there, such as `steps.base.arguments.steps`."""

    path: str
    message: str

    def __str__(self) -> str:
        # The message on a field of its own begins with its name: 'width 256: ...'.
        if self.message.startswith(f"{self.path} "):
            return self.message
        return f"{self.path}: {self.message}" if self.path else self.message


class RestrikeError(Exception):
    """Something went wrong in Restrike."""

    def __init__(self, message: str | None = None) -> None:
        text = message or (type(self).__doc__ or "").strip().splitlines()[0]
        # Quoted input can hold line breaks and more; a failure is one line all the same, and moves no cursor.
        super().__init__(printable(" ".join(text.splitlines())))

    @property
    def message(self) -> str:
        """The one line that a person reads."""
        return str(self)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The single faults of an input that has several, each with its place; none for most failures."""
        return ()


class Refused(RestrikeError):
    """The request cannot be served as it stands; no retry changes that."""


class NotFound(Refused):
    """The thing asked for does not exist."""


class Unknown(NotFound):
    """A name that is not one of those that exist; the message lists them and the nearest one.

    `meant` is the one that is meant where the spelling does not tell.
    """

    def __init__(
        self, kind: str, name: str, exists: Iterable[str], *, meant: str | None = None, hint: str = ""
    ) -> None:
        known = sorted(exists)
        near = meant or nearest(name, known)
        guess = f", did you mean '{near}'?" if near else "."
        listed = f" Known: {', '.join(known)}." if known else " None exist."
        super().__init__(f"unknown {kind} '{name}'{guess}{listed}{' ' + hint if hint else ''}")


class Conflict(Refused):
    """Things are not as the request takes them to be; ask anew and decide again."""


class Shortfall(RestrikeError):
    """Memory, disk or time ran short; the same request may succeed with a larger budget."""


class Crashed(RestrikeError):
    """Something failed in a way that is not understood; it may be tried again a few times."""


class Cancelled(RestrikeError):
    """The work was cancelled before it finished."""


RULES: dict[type[RestrikeError], Rule] = {
    Crashed: Rule(retry=Retry.BOUNDED, exit_code=1, http_status=500),
    Refused: Rule(retry=Retry.NEVER, exit_code=2, http_status=422),
    NotFound: Rule(retry=Retry.NEVER, exit_code=2, http_status=404),
    Conflict: Rule(retry=Retry.NEVER, exit_code=2, http_status=409),
    Shortfall: Rule(retry=Retry.NEW_BUDGET, exit_code=3, http_status=507),
    Cancelled: Rule(retry=Retry.NEVER, exit_code=4, http_status=499),
}


# Control characters but the line break, lone surrogates, and what turns the direction of writing.
_UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """The text with all that would steer a terminal, or that none can show, as its escape: `\\x1b`."""
    return _UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def rule_of(error: RestrikeError) -> Rule:
    """The rule of the nearest class in the table."""
    return next((RULES[cls] for cls in type(error).__mro__ if cls in RULES), RULES[Crashed])


def nearest(name: str, exists: Iterable[str]) -> str | None:
    """Of the names that exist the one spelt most like `name`, in whatever case; None when none is near."""
    spelt = {each.casefold(): each for each in exists}
    near = difflib.get_close_matches(name.casefold(), spelt, n=1)
    return spelt[near[0]] if near else None


def near_beside(path: str, fits: Callable[[Path], bool]) -> str:
    """A question after what fits beside a missing path and is spelt most like it; empty if nothing is."""
    folder, last = os.path.split(os.path.expanduser(path).rstrip("/"))
    try:
        near = nearest(last, (each.name for each in Path(folder).iterdir() if fits(each)))
    except OSError:
        return ""
    return f"; did you mean '{os.path.join(folder, near)}'?" if near else ""


def typed(error: BaseException) -> RestrikeError:
    """Give a foreign exception its place in the tree; one of ours is returned as it is.

    Memory and disk that ran out are shortfalls, a forbidden path is a refusal, an interrupt is a
    cancellation, and all that is not understood is a crash.
    """
    if isinstance(error, RestrikeError):
        return error
    text = _one_line(error)
    if isinstance(error, KeyboardInterrupt):
        return Cancelled("interrupted")
    # torch.OutOfMemoryError by name: this module must not import torch.
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return Shortfall(f"out of memory: {text}")
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Shortfall(f"no space left: {error.filename or text}")
    if isinstance(error, PermissionError) or (isinstance(error, OSError) and error.errno == errno.EROFS):
        return Refused(f"no permission: {error.filename or text}")
    return Crashed(f"{type(error).__name__}: {text}")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
