"""A job's workflow as a new run, or the job's own run gone on with where another worker left it.

What computes is the session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from restrike.engine.requests import Cancellation
from restrike.errors import Cancelled, NotFound
from restrike.server.bodies import asked_of, source_of
from restrike.server.jobs.model import Job
from restrike.server.worker.folders import manifest_of
from restrike.server.worker.watching import Watching
from restrike.workflow.runs import Manifest, RunFolder
from restrike.workflow.session import Asked, Session, Watch


@dataclass(frozen=True, kw_only=True)
class Running:
    """The run of one attempt."""

    job: Job
    session: Session
    watching: Watching
    preview_every: int = 0

    def do(self, cancellation: Cancellation) -> Manifest:
        """Run the steps that are left; raises what kept one from being done."""
        check = _check(cancellation)
        watch = Watch(
            run=self.watching.run,
            engine=self.watching.engine,
            check=check,
            preview_every=self.preview_every,
        )
        check()
        earlier = self.manifest()
        if earlier is not None and earlier.status == "finished":
            return earlier  # Its worker died after the last step and before it could say so.
        if self.job.run is not None and earlier is not None:
            return self.session.resume(self.job.run, watch, self._asked)
        self._forget()
        return self.session.run(source_of(self.job.kind, self.job.body), self._asked, watch)

    @property
    def _asked(self) -> Asked:
        return asked_of(self.job.kind, self.job.body)

    def manifest(self) -> Manifest | None:
        """What stands in the job's run folder."""
        return manifest_of(self.session.workspace, self.watching.run_name)

    def record(self, manifest: Manifest | None) -> Mapping[str, Any]:
        """Times, what was reused, and what computed the rest."""
        return self.watching.record(manifest)

    def _forget(self) -> None:
        """Remove a folder that an earlier attempt made and got no further."""
        if self.job.run is not None:
            with suppress(NotFound):
                RunFolder.open(self.session.workspace, self.job.run).delete()


def _check(cancellation: Cancellation) -> Callable[[], None]:
    def check() -> None:
        if cancellation.is_cancelled:
            raise Cancelled("cancelled at a step; finished steps are kept")

    return check
