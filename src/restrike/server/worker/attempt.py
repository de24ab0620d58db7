"""One attempt at a job: a new run, or the job's own run gone on with where another worker left it.

What computes is the session; this joins it to the queue. It ends no process.
"""

from __future__ import annotations

import threading
from contextlib import suppress

from restrike.errors import Cancelled, NotFound, RestrikeError, typed
from restrike.server.bodies import asked_of, source_of
from restrike.server.jobs.model import Job, Outcome
from restrike.server.worker.ending import cancelled, failed, succeeded
from restrike.server.worker.watching import Watching
from restrike.workflow.runs import Manifest, RunFolder
from restrike.workflow.session import Asked, Session, Watch


class Attempt:
    """One attempt; `stop` may be called from any thread."""

    def __init__(self, job: Job, session: Session, watching: Watching, *, preview_every: int = 0) -> None:
        self.job = job
        self.watching = watching
        self._session = session
        self._preview_every = preview_every
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Let it end at its next step."""
        self._stopped.set()

    @property
    def is_stopped(self) -> bool:
        """Whether it was asked to end."""
        return self._stopped.is_set()

    def run(self) -> Outcome:
        """Run to the end, whatever that is; raises nothing."""
        try:
            manifest = self._run()
        except BaseException as error:
            failure = typed(error)
            record = self.watching.record(self._manifest())
            if isinstance(failure, Cancelled) and self.is_stopped:
                return cancelled(record)
            return failed(failure, self.watching.step, record)
        return succeeded(manifest.run, self.watching.record(manifest))

    def _run(self) -> Manifest:
        watch = Watch(
            run=self.watching.run,
            engine=self.watching.engine,
            check=self._check,
            preview_every=self._preview_every,
        )
        self._check()
        earlier = self._manifest()
        if earlier is not None and earlier.status == "finished":
            return earlier  # Its worker died after the last step and before it could say so.
        if self.job.run is not None and earlier is not None:
            return self._session.resume(self.job.run, watch, self._asked)
        self._forget()
        return self._session.run(source_of(self.job.kind, self.job.body), self._asked, watch)

    @property
    def _asked(self) -> Asked:
        return asked_of(self.job.kind, self.job.body)

    def _check(self) -> None:
        if self._stopped.is_set():
            raise Cancelled("cancelled at a step; finished steps are kept")

    def _manifest(self) -> Manifest | None:
        """What stands in the job's run folder, None before it has one and while nothing is in it."""
        if self.watching.run_name is None:
            return None
        try:
            return RunFolder.open(self._session.workspace, self.watching.run_name).manifest()
        except RestrikeError:
            return None

    def _forget(self) -> None:
        """Remove a folder that an earlier attempt made and got no further."""
        if self.job.run is not None:
            with suppress(NotFound):
                RunFolder.open(self._session.workspace, self.job.run).delete()
