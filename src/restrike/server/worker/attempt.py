"""One attempt at a job: what it does, joined to the queue. It ends no process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from restrike.engine.requests import Cancellation
from restrike.errors import Cancelled, typed
from restrike.server.jobs.model import Job, Outcome
from restrike.server.worker.ending import cancelled, failed, succeeded
from restrike.server.worker.watching import Watching
from restrike.workflow.runs import Manifest


class Doing(Protocol):
    """What an attempt does, in a run folder of its job: a run of a workflow, or a call of an endpoint."""

    def do(self, cancellation: Cancellation) -> Manifest:
        """Do it to the end; raises whatever keeps it from that, and Cancelled soon after it was cancelled."""
        ...

    def manifest(self) -> Manifest | None:
        """What stands in the job's run folder, None before it has one and while nothing is in it."""
        ...

    def record(self, manifest: Manifest | None) -> Mapping[str, Any]:
        """What the job's record gains."""
        ...


class Attempt:
    """One attempt; `stop` may be called from any thread."""

    def __init__(self, job: Job, doing: Doing, watching: Watching) -> None:
        self.job = job
        self.watching = watching
        self._doing = doing
        self._cancellation = Cancellation()

    def stop(self) -> None:
        """Let it end at its next step."""
        self._cancellation.cancel()

    @property
    def is_stopped(self) -> bool:
        """Whether it was asked to end."""
        return self._cancellation.is_cancelled

    def run(self) -> Outcome:
        """Run to the end, whatever that is; raises nothing."""
        try:
            manifest = self._doing.do(self._cancellation)
        except BaseException as error:
            failure = typed(error)
            record = self._doing.record(self._doing.manifest())
            if isinstance(failure, Cancelled) and self.is_stopped:
                return cancelled(record)
            return failed(failure, self.watching.step, record)
        return succeeded(manifest.run, self._doing.record(manifest))
