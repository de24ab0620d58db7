"""Jobs and events as rows of the database, and back. Decides nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy import Row

from restrike.server.jobs.model import Failure, Job, JobEvent, JobKind, JobState


def text_of(value: object) -> str:
    """Plain values as text, the same text for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def failure_text(failure: Failure | None) -> str | None:
    """A failure as the database keeps it."""
    return None if failure is None else text_of(asdict(failure))


def job_of(row: Row[Any]) -> Job:
    """The job of a row of `jobs`."""
    return Job(
        id=row.id,
        kind=JobKind(row.kind),
        body=json.loads(row.body),
        body_digest=row.body_digest,
        workspace=row.workspace,
        state=JobState(row.state),
        priority=row.priority,
        position=row.position,
        created=row.created,
        started=row.started,
        ended=row.ended,
        attempt=row.attempt,
        kills=row.kills,
        worker=row.worker,
        device=row.device,
        cancel_requested=bool(row.cancel_requested),
        failure=None if row.failure is None else Failure(**json.loads(row.failure)),
        run=row.run,
        why=row.why,
        label=row.label,
        needs=tuple(json.loads(row.needs)),
        need_bytes=row.need_bytes,
        record=json.loads(row.record),
    )


def event_row(job: str, kind: str, data: Mapping[str, Any], time: float) -> dict[str, Any]:
    """An event as a row of `events`, which numbers it."""
    return {"job": job, "kind": kind, "data": text_of(data), "time": time}


def event_of(row: Row[Any]) -> JobEvent:
    """The event of a row of `events`."""
    return JobEvent(
        sequence=row.sequence, job=row.job, kind=row.kind, data=json.loads(row.data), time=row.time
    )
