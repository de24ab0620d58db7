"""What a job is: values that the queue stores and all interfaces show. Nothing here touches a database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class JobState(StrEnum):
    """Where a job is. It moves from left to right and never leaves a final state."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    QUARANTINED = "quarantined"

    @property
    def is_final(self) -> bool:
        """Whether nothing more will happen to the job."""
        return self not in (JobState.QUEUED, JobState.RUNNING)


class JobKind(StrEnum):
    """What a job's body is: a workflow's definition with its values, a generation, a call of an endpoint."""

    WORKFLOW = "workflow"
    GENERATION = "generation"
    ENDPOINT = "endpoint"


@dataclass(frozen=True, kw_only=True)
class Submission:
    """What a client asks for, already validated.

    `body` is a snapshot as plain values: editing the file that it came from changes nothing. `client_id`
    makes a retry idempotent. Of two waiting jobs the one of higher `priority` goes first. `needs` are the
    weights (by identity) that it reads and `need_bytes` their size, for routing; `label` is what its time is
    measured under.
    """

    kind: JobKind
    body: Mapping[str, Any]
    workspace: str
    client_id: str | None = None
    priority: int = 0
    needs: tuple[str, ...] = ()
    need_bytes: int = 0
    label: str = ""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a job did not succeed: the failure class by its name in `errors`, and what to do about it."""

    kind: str
    reason: str
    step: str | None = None
    remedy: str | None = None


@dataclass(frozen=True, kw_only=True)
class Job:
    """One job as it stands. Times are seconds since the epoch.

    `attempt` counts the times that it was given to a worker, `kills` how many of them took the worker with
    them. `run` names its run folder. `record` holds what the worker told of it: timings, reused steps,
    versions of weights, cells and captures. `why` says why it went where it went.
    """

    id: str
    kind: JobKind
    body: Mapping[str, Any]
    body_digest: str
    workspace: str
    state: JobState
    priority: int
    position: float
    created: float
    started: float | None = None
    ended: float | None = None
    attempt: int = 0
    kills: int = 0
    worker: str | None = None
    device: str | None = None
    cancel_requested: bool = False
    failure: Failure | None = None
    run: str | None = None
    why: str = ""
    label: str = ""
    needs: tuple[str, ...] = ()
    need_bytes: int = 0
    record: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class JobEvent:
    """Something that happened. `sequence` grows over all jobs: it is what `Last-Event-ID` means."""

    sequence: int
    job: str
    kind: str
    data: Mapping[str, Any]
    time: float


@dataclass(frozen=True, kw_only=True)
class WorkerFacts:
    """One worker as routing sees it.

    `resident` are the identities of the weights that it holds loaded, `armed` those of them for which graphs
    or cells answer. `is_free` says that it runs no job.
    """

    id: str
    device: str
    memory_bytes: int
    resident: tuple[str, ...] = ()
    armed: tuple[str, ...] = ()
    is_free: bool = False


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How an attempt ended, by the word of its worker."""

    state: JobState
    failure: Failure | None = None
    run: str | None = None
    record: Mapping[str, Any] = field(default_factory=dict)
