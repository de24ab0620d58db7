"""What is wrong with a workflow, each finding with its place in the author's own file.

Findings are collected, never raised one by one: a person mends a file in one go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from restrike.errors import Finding, Refused, nearest
from restrike.keys.unkeyable import dotted

Step = str | int
Place = tuple[Step, ...]


class InvalidWorkflow(Refused):
    """A workflow cannot run as it stands. `findings` has all that is wrong, in the order of finding."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self._findings = tuple(dict.fromkeys(findings))
        super().__init__("; ".join(map(str, self._findings)))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All of them, in the order of finding."""
        return self._findings

    def __reduce__(self) -> tuple[type[InvalidWorkflow], tuple[tuple[Finding, ...]]]:
        # Exception's own would call the class with the finished message, in the process that receives it.
        return InvalidWorkflow, (self._findings,)


@dataclass
class Findings:
    """Collects findings while a workflow is read."""

    found: list[Finding] = field(default_factory=list)

    def add(self, place: Place, message: str) -> None:
        """Note what is wrong at a place."""
        self.found.append(Finding(path=dotted(place), message=" ".join(message.split())))

    def unknown(self, place: Place, kind: str, name: str, exists: Iterable[str]) -> None:
        """Note a name that does not exist, with those that do."""
        self.add(place, no_such(kind, name, exists))

    def include(self, place: Place, file: str, others: Findings) -> None:
        """Note what was found in another file that is named at a place of this one."""
        for other in others.found:
            self.add(place, f"in '{file}', {other}")

    def check(self) -> None:
        """Raise InvalidWorkflow when anything was found."""
        if self.found:
            raise InvalidWorkflow(self.found)


def no_such(kind: str, name: str, exists: Iterable[str], *, meant: str | None = None) -> str:
    """That a name does not exist, the one that is meant or else the nearest, and the first few of all."""
    known = sorted(exists)
    near = meant or nearest(name, known)
    guess = f"; did you mean '{near}'?" if near else ""
    if not known:
        return f"no {kind} '{name}' (there is none)"
    more = f", and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return f"no {kind} '{name}'{guess} (there is {', '.join(known[:_SHOWN])}{more})"


def shown(value: object) -> str:
    """A value on one short line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


_SHOWN = 40
