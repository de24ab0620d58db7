"""Whether jobs will run: known once one real request passed through a worker. It mends nothing."""

from __future__ import annotations

import anyio
import anyio.to_thread

from restrike.errors import RestrikeError
from restrike.server.jobs.model import Job, JobKind, JobState, Submission
from restrike.server.jobs.queue import Queue
from restrike.server.jobs.switches import Switches

WORKSPACE = "_ready"
"""Where the proof is made, apart from all that is anyone's."""
_PROOF = {"card": "digits", "prompt": "zero", "seed": 0, "steps": 1, "output": "png"}
_PRIORITY = 1000
_LOOK_S = 0.1


class Readiness:
    """Proves one server: submits a small generation at its start, and looks until it has ended."""

    def __init__(self, queue: Queue, switches: Switches) -> None:
        self._queue, self._switches = queue, switches
        self._why: str | None = "no request has passed through a worker yet"

    def why(self) -> str | None:
        """Why it is not ready; None when it is."""
        return self._why

    async def prove(self) -> None:
        """Return when it is ready, or is known not to become so."""
        try:
            job = await anyio.to_thread.run_sync(self._begin)
            while job is not None and not job.state.is_final:
                await anyio.sleep(_LOOK_S)
                job = await anyio.to_thread.run_sync(self._queue.job, job.id)
        except RestrikeError as error:
            self._why = error.message
            return
        if job is None or job.state is JobState.SUCCEEDED:
            self._why = None
        else:
            reason = job.failure.reason if job.failure else job.state
            self._why = f"the first request did not pass: {reason}"

    def _begin(self) -> Job | None:
        """The proof, waiting; None where nothing may start or be accepted, which the operator knows."""
        if any(self._switches.states().values()):
            return None
        asked = Submission(
            kind=JobKind.GENERATION,
            body=_PROOF,
            workspace=WORKSPACE,
            priority=_PRIORITY,
            label="readiness",
        )
        return self._queue.submit(asked)
