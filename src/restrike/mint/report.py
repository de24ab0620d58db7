"""The report of a mint: what landed, what failed and what remains, written on every terminus.

It is made of the events alone, so that one made for a killed child says what its own would have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from restrike.mint.cell.facts import Recipe
from restrike.mint.events import (
    EntryFailed,
    EntryLanded,
    Keyed,
    MintEvent,
    MintPhase,
    PhaseBegan,
    PhaseEnded,
    Planned,
)
from restrike.mint.outcome import Outcome
from restrike.mint.request import MintRequest
from restrike.store.files import write_file


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How it ended: the outcome, and for all but ok the class and the one line of the error."""

    outcome: Outcome
    kind: str = ""
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class MintReport:
    """A mint, in full. `phase` is the one it died in, None if it came to its end; sizes in bytes."""

    card: str
    recipe: Recipe
    target: str
    attempt: int
    ending: Ending
    phase: MintPhase | None
    keys: dict[str, str]
    landed: tuple[EntryLanded, ...]
    failed: tuple[EntryFailed, ...]
    remaining: tuple[str, ...]
    phases: tuple[PhaseEnded, ...]
    seconds: float
    peak_bytes: int

    def write(self, path: Path) -> None:
        """Write the file; atomic."""
        write_file(path, _ADAPTER.dump_json(self, indent=2))


_ADAPTER = TypeAdapter(MintReport)


def read_report(path: Path) -> MintReport | None:
    """The report in a file; None when there is none, or it is not whole."""
    try:
        return _ADAPTER.validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def report_of(
    request: MintRequest, events: Sequence[MintEvent], ending: Ending, seconds: float
) -> MintReport:
    """The report that these events make."""
    keys = {event.entry: event.key for event in events if isinstance(event, Keyed)}
    landed = tuple(event for event in events if isinstance(event, EntryLanded))
    failed = tuple(event for event in events if isinstance(event, EntryFailed))
    planned = [entry for event in events if isinstance(event, Planned) for entry in event.entries]
    settled = {event.entry for event in (*landed, *failed)} | (set(keys) if request.keys_only else set())
    phases = tuple(event for event in events if isinstance(event, PhaseEnded))
    return MintReport(
        card=request.slot.ref,
        recipe=request.recipe,
        target=str(request.target),
        attempt=request.attempt,
        ending=ending,
        phase=_open_phase(events),
        keys=keys,
        landed=landed,
        failed=failed,
        remaining=tuple(entry for entry in planned if entry not in settled),
        phases=phases,
        seconds=seconds,
        peak_bytes=max((phase.peak_bytes for phase in phases), default=0),
    )


def _open_phase(events: Sequence[MintEvent]) -> MintPhase | None:
    """The phase that began last and has no end, unless its entry's failure was told and the mint went on."""
    phase: MintPhase | None = None
    for event in events:
        if isinstance(event, PhaseBegan):
            phase = event.phase
        elif isinstance(event, PhaseEnded | EntryFailed):
            phase = None
    return phase
