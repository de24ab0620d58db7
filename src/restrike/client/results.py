"""What a client is told, as values. It leaves out fields that only a later server knows, and goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from restrike.client.failures import kind_named, made
from restrike.errors import Cancelled, Crashed, RestrikeError
from restrike.server.jobs.model import Failure, JobEvent, JobKind, JobState

Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class JobFile:
    """A file that a job made, by its name in the job's run; `sha256` is the digest of its bytes.

    `url` is where the server has it, and `step` made it.
    """

    file: str
    step: str
    size_bytes: int
    sha256: str
    url: str


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job as its server tells it. Times are seconds since the epoch.

    `position` counts the jobs that wait before a waiting one. `run` names its run folder, `why` says why it
    went to its device, `title` is its prompt or its workflow's name, `record` holds what its worker told:
    timings, reused steps, versions of weights. `progress` is what a running one told last: `done` of `total`
    steps, of picture `picture` of `pictures`. `files` are empty in lists of jobs.
    """

    id: str
    kind: JobKind
    workspace: str
    state: JobState
    priority: int
    created: float
    label: str = ""
    title: str = ""
    position: int | None = None
    started: float | None = None
    ended: float | None = None
    attempt: int = 0
    kills: int = 0
    device: str | None = None
    cancel_requested: bool = False
    failure: Failure | None = None
    run: str | None = None
    why: str = ""
    record: Mapping[str, Any] = field(default_factory=dict)
    progress: Mapping[str, Any] | None = None
    files: tuple[JobFile, ...] = ()

    @property
    def error(self) -> RestrikeError | None:
        """What kept it from succeeding, as it would have been raised here; None for no failure."""
        if self.state is JobState.CANCELLED:
            return Cancelled(f"job {self.id} was cancelled")
        if self.failure is None:
            return None
        step = f"step '{self.failure.step}': " if self.failure.step else ""
        return made(kind_named(self.failure.kind) or Crashed, f"{step}{self.failure.reason}")


@dataclass(frozen=True, kw_only=True)
class Cleared:
    """What became of a device that was to be cleared: the bytes that are free by it, or why it was left."""

    device: str
    freed_bytes: int = 0
    refusal: str | None = None


def cleared_of(tree: Mapping[str, Any]) -> Cleared:
    """What a server's JSON tells of a device."""
    return _known(Cleared, tree)


def job_of(tree: Mapping[str, Any]) -> Job:
    """The job that a server's JSON tells of."""
    failure = tree.get("failure")
    return _known(
        Job,
        {
            **tree,
            "kind": JobKind(tree["kind"]),
            "state": JobState(tree["state"]),
            "failure": None if failure is None else _known(Failure, failure),
            "files": tuple(_known(JobFile, file) for file in tree.get("files", ())),
        },
    )


def event_of(tree: Mapping[str, Any]) -> JobEvent:
    """The event that a server's JSON tells of."""
    return JobEvent(
        sequence=tree["id"], job=tree["job"], kind=tree["kind"], data=tree["data"], time=tree["time"]
    )


def _known(kind: type[Value], tree: Mapping[str, Any]) -> Value:
    names = {part.name for part in fields(kind)}  # pyright: ignore[reportArgumentType]  (dataclasses)
    return kind(**{name: value for name, value in tree.items() if name in names})
