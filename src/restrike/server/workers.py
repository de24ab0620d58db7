"""The workers of a database: who is there, when each was heard last, and what it holds. Starts none."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from restrike.engine.counts import CardCounters, counters_of
from restrike.server.database.connect import Database
from restrike.server.database.schema import workers
from restrike.server.jobs.model import WorkerFacts
from restrike.server.jobs.rows import text_of

LIVE_S = 15.0
"""A worker that was not heard for so long is not counted on by others."""
IDLE, BUSY = "idle", "busy"


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a worker says of itself with each heartbeat.

    `resident` are the identities of weights that it holds, `armed` those of them for which graphs or cells
    answer. Of its main memory, `resident_bytes` are weights. `step_s` is the longest denoising step of its
    job so far. `cards` count what cells and captures did since it was started.
    """

    job: str | None = None
    attempt: int = 0
    resident: tuple[str, ...] = ()
    armed: tuple[str, ...] = ()
    rss_bytes: int = 0
    resident_bytes: int = 0
    step_s: float = 0.0
    cards: tuple[CardCounters, ...] = ()


@dataclass(frozen=True, kw_only=True)
class WorkerRow:
    """One worker. `owner` is its process and `server` the one that started it, named as in `store.owner`.

    `memory_bytes` are its device's. `host_bytes` are those of the main memory that weights pass through on
    their way there; None where it is the device's own, or the system does not tell.
    """

    id: str
    device: str
    owner: str
    server: str
    memory_bytes: int
    host_bytes: int | None = None
    state: str = IDLE
    heartbeat: float = 0.0
    report: Report = Report()

    @property
    def facts(self) -> WorkerFacts:
        """The worker as routing sees it."""
        return WorkerFacts(
            id=self.id,
            device=self.device,
            memory_bytes=self.memory_bytes,
            resident=self.report.resident,
            armed=self.report.armed,
        )


class Workers:
    """The workers of one database; any number of processes may use it at once."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    def register(self, worker: WorkerRow) -> None:
        """Add a worker, heard now."""
        with self._database.write() as connection:
            self._add(connection, worker)

    def _add(self, connection: Connection, worker: WorkerRow) -> None:
        connection.execute(
            insert(workers).values(
                id=worker.id,
                device=worker.device,
                owner=worker.owner,
                state=worker.state,
                heartbeat=self._clock(),
                memory_bytes=worker.memory_bytes,
                facts=_facts(worker),
            )
        )

    def beat(self, worker: WorkerRow) -> None:
        """Note that a worker was heard now, with its state and report.

        One that was given up for its silence is known again by it.
        """
        with self._database.write() as connection:
            heard = {"state": worker.state, "heartbeat": self._clock(), "facts": _facts(worker)}
            known = connection.execute(update(workers).where(workers.c.id == worker.id).values(**heard))
            if known.rowcount == 0:
                self._add(connection, worker)

    def leave(self, name: str) -> None:
        """Forget a worker."""
        with self._database.write() as connection:
            connection.execute(delete(workers).where(workers.c.id == name))

    def all(self) -> tuple[WorkerRow, ...]:
        """Every worker that registered and did not leave, dead or alive."""
        with self._database.read() as connection:
            return tuple(_worker(row) for row in connection.execute(select(workers).order_by(workers.c.id)))

    def live(self) -> tuple[WorkerRow, ...]:
        """Those that were heard lately."""
        since = self._clock() - LIVE_S
        return tuple(worker for worker in self.all() if worker.heartbeat >= since)


def no_room(workers: Sequence[WorkerRow], need_bytes: int) -> str | None:
    """Why weights of so many bytes fit on none of these workers; None when they do, or nobody is there."""
    largest = max(workers, key=lambda each: each.memory_bytes, default=None)
    if largest is None or need_bytes <= largest.memory_bytes:
        return None
    return (
        f"its weights have {need_bytes} bytes; the largest device, {largest.device}, "
        f"has {largest.memory_bytes}"
    )


def _facts(worker: WorkerRow) -> str:
    told = {"server": worker.server, "host_bytes": worker.host_bytes, "report": asdict(worker.report)}
    return text_of(told)


def _report(said: Mapping[str, Any]) -> Report:
    listed = {name: tuple(said[name]) for name in ("resident", "armed")}
    # A worker of an earlier release counts nothing.
    return Report(**{**said, **listed, "cards": tuple(map(counters_of, said.get("cards", ())))})


def _worker(row: Row[Any]) -> WorkerRow:
    facts = json.loads(row.facts)
    return WorkerRow(
        id=row.id,
        device=row.device,
        owner=row.owner,
        server=facts["server"],
        memory_bytes=row.memory_bytes,
        host_bytes=facts.get("host_bytes"),
        state=row.state,
        heartbeat=row.heartbeat,
        report=_report(facts["report"]),
    )
