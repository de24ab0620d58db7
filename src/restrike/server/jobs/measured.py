"""How long work like a waiting job's took on each device, from the jobs that ended. It changes nothing."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from sqlalchemy import case, func, literal, select

from restrike.server.database.connect import Database
from restrike.server.database.schema import jobs
from restrike.server.jobs.model import JobKind, JobState
from restrike.server.routing import Likeness, Took, likeness

SAMPLES = 3
"""So many jobs must have ended on a device: the first of them loaded the weights as well."""
_LOOKED_AT = 128
_RECORD_LENGTH = 16_384
"""The record of a workflow of very many steps is longer, and is not read every few seconds."""
_FRESH_S = 5.0


class Measured:
    """The measured times of one database, looked up at most every few seconds."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._database, self._clock = database, clock
        self._took: Took = {}
        self._rss_bytes: Mapping[Likeness, int] = {}
        self._newest: float | None = None
        self._next_s: float | None = None

    def took(self) -> Took:
        """What the newest jobs that succeeded took; one that reused anything counts for nothing."""
        self._look()
        return self._took

    def rss_bytes(self) -> Mapping[Likeness, int]:
        """The most main memory that a worker's process took while it ran such a job, also one that reused."""
        self._look()
        return self._rss_bytes

    def _look(self) -> None:
        now_s = self._clock()
        if self._next_s is None or now_s >= self._next_s:
            self._next_s = now_s + _FRESH_S
            if (newest := self._ended()) != self._newest:
                (self._took, self._rss_bytes), self._newest = self._looked_up(), newest

    def _ended(self) -> float | None:
        """When a job ended last."""
        with self._database.read() as connection:
            return connection.execute(select(func.max(jobs.c.ended))).scalar_one()

    def _looked_up(self) -> tuple[Took, Mapping[Likeness, int]]:
        # A workflow's body may be large, and its likeness reads none of it.
        body = case((jobs.c.kind == JobKind.GENERATION, jobs.c.body), else_=literal("{}"))
        query = (
            select(jobs.c.kind, jobs.c.label, jobs.c.needs, jobs.c.device, jobs.c.record, body)
            .where(jobs.c.state == JobState.SUCCEEDED, func.length(jobs.c.record) <= _RECORD_LENGTH)
            .order_by(jobs.c.ended.desc())
            .limit(_LOOKED_AT)
        )
        found: dict[Likeness, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        most_bytes: dict[Likeness, int] = {}
        with self._database.read() as connection:
            for row in connection.execute(query):
                kind, label, needs, device, record, given = row
                told = json.loads(record)
                like = likeness(JobKind(kind), label, json.loads(needs), json.loads(given))
                most_bytes[like] = max(most_bytes.get(like, 0), told.get("rss_bytes", 0))
                seconds = _seconds(told)
                if seconds is not None:
                    found[like][device].append(seconds)
        took = {
            like: {device: median(each) for device, each in devices.items() if len(each) >= SAMPLES}
            for like, devices in found.items()
        }
        return took, most_bytes


def _seconds(record: Mapping[str, Any]) -> float | None:
    """What the steps of a job took together; None when one of them was reused, or nothing is known."""
    seconds = record.get("seconds")
    return None if record.get("reused") or not seconds else sum(seconds.values())
