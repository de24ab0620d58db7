"""What happens in a mint, one JSON line each, written as it happens: even a killed child leaves them.

Lines are only ever added. Who reads them takes a last line that is not whole for one not written.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError


class MintPhase(StrEnum):
    """The phases in their order; those from tracing to publishing are gone through for each entry."""

    LOAD = "load"
    WARMUP_FORWARD = "warmup_forward"
    TRACE_GRAPH = "trace_graph"
    COMPILE = "compile"
    SEAL = "seal"
    PROVE = "prove"
    PUBLISH = "publish"
    FINALIZE = "finalize"


@dataclass(frozen=True, kw_only=True)
class PhaseBegan:
    """A phase begins, of one entry or of the whole mint; `at` is in seconds since 1970."""

    phase: MintPhase
    at: float
    entry: str | None = None
    event: Literal["began"] = "began"


@dataclass(frozen=True, kw_only=True)
class PhaseEnded:
    """A phase ended well: how long it took, and the most memory in use until then."""

    phase: MintPhase
    seconds: float
    peak_bytes: int
    entry: str | None = None
    event: Literal["ended"] = "ended"


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The entries to land, first needed first."""

    entries: tuple[str, ...]
    event: Literal["planned"] = "planned"


@dataclass(frozen=True, kw_only=True)
class Keyed:
    """The key of an entry, known before it is compiled."""

    entry: str
    key: str
    event: Literal["keyed"] = "keyed"


@dataclass(frozen=True, kw_only=True)
class EntryLanded:
    """An entry is in the store: it was published now, or somebody had already."""

    entry: str
    key: str
    how: Literal["published", "already"]
    event: Literal["landed"] = "landed"


@dataclass(frozen=True, kw_only=True)
class EntryFailed:
    """An entry did not land, and cost only itself. `kind` is the class of the error."""

    entry: str
    phase: MintPhase
    outcome: str
    kind: str
    message: str
    event: Literal["failed"] = "failed"


MintEvent = PhaseBegan | PhaseEnded | Planned | Keyed | EntryLanded | EntryFailed
_ADAPTER: TypeAdapter[MintEvent] = TypeAdapter(Annotated[MintEvent, Field(discriminator="event")])


class EventLog:
    """Adds events to a file."""

    def __init__(
        self,
        path: Path,
        *,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.path = path
        self._wall, self._clock = wall, clock
        self.phase: MintPhase | None = None
        """The phase that is going on, or that ended badly."""

    def add(self, event: MintEvent) -> None:
        """Write one event; it is the system's before this returns."""
        line = json.dumps(asdict(event)) + "\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)

    @contextmanager
    def during(self, phase: MintPhase, entry: str | None = None) -> Iterator[None]:
        """A phase, from its beginning to its end; one that raises has no end."""
        self.phase = phase
        self.add(PhaseBegan(phase=phase, at=self._wall(), entry=entry))
        began = self._clock()
        yield
        seconds = self._clock() - began
        self.add(PhaseEnded(phase=phase, seconds=seconds, peak_bytes=peak_bytes(), entry=entry))


def read_events(path: Path) -> tuple[MintEvent, ...]:
    """The whole lines of a file that may still be written; none when there is no file."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return ()
    found: list[MintEvent] = []
    for line in lines:
        try:
            found.append(_ADAPTER.validate_json(line))
        except ValidationError:  # the line on which a machine went down
            continue
    return tuple(found)


def peak_bytes() -> int:
    """The most memory that this process or one of its children had; of the GPU where one was used."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        return int(torch.cuda.max_memory_allocated())
    unit = 1 if sys.platform == "darwin" else 1024
    used = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return max(used) * unit
