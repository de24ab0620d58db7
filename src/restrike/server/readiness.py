"""Whether jobs will run: known once one real request passed through a worker. It mends nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import anyio
import anyio.to_thread

from restrike.errors import RestrikeError, Shortfall
from restrike.server.jobs.model import Job, JobKind, JobState, Submission
from restrike.server.jobs.queue import Queue
from restrike.server.jobs.switches import Switches
from restrike.server.pool import Seat
from restrike.server.workers import Workers

WORKSPACE = "_ready"
"""Where the proof is made, apart from all that is anyone's."""
_STEP = {"generate": "digits", "arguments": {"prompt": "zero", "steps": 1}, "seed": 0}
# Nothing is reused: what an earlier start computed says nothing of the device as it is now.
_PROOF = {"definition": {"name": "readiness", "steps": {"proof": _STEP}}, "reuse": False}
_UNPROVED = "no request has passed through a worker yet"
_NOBODY = "no worker is there to take jobs"
_PRIORITY = 1000
_LOOK_S, _AGAIN_S = 0.1, 1.0


class Readiness:
    """Proves one server: submits a small generation at its start, and looks until it has ended.

    `seats` are the devices of its workers as they stand, to tell why nothing passes.
    """

    def __init__(
        self, queue: Queue, switches: Switches, workers: Workers, seats: Callable[[], Sequence[Seat]]
    ) -> None:
        self._queue, self._switches, self._workers, self._seats = queue, switches, workers, seats
        self._why: str | None = _UNPROVED

    def why(self) -> str | None:
        """Why it is not ready; None when it is. Once it was, it is while any worker is there to take jobs."""
        if self._why is None:
            return self._why_since()
        if self._why != _UNPROVED:
            return self._why
        return "; ".join((_UNPROVED, *_deaths(self._seats())))

    def _why_since(self) -> str | None:
        try:
            is_there = bool(self._workers.live())
        except RestrikeError as error:
            return error.message
        return None if is_there else "; ".join((_NOBODY, *_deaths(self._seats())))

    async def prove(self) -> None:
        """Return when it is ready, or is known not to become so."""
        try:
            job = await self._patiently(self._begin)
            while job is not None and not job.state.is_final:
                await anyio.sleep(_LOOK_S)
                job = await self._patiently(partial(self._queue.job, job.id))
        except RestrikeError as error:
            self._why = error.message
            return
        if job is None or job.state is JobState.SUCCEEDED:
            self._why = None
        else:
            reason = job.failure.reason if job.failure else job.state
            self._why = f"the first request did not pass: {reason}"

    async def _patiently(self, look: Callable[[], Job | None]) -> Job | None:
        """What the database says, once it is there: one that is away for a while is no proof of anything."""
        while True:
            try:
                found = await anyio.to_thread.run_sync(look)
            except Shortfall as error:
                self._why = error.message
                await anyio.sleep(_AGAIN_S)
            else:
                self._why = _UNPROVED
                return found

    def _begin(self) -> Job | None:
        """The proof, waiting; None where nothing may start or be accepted, which the operator knows."""
        if any(self._switches.states().values()):
            return None
        asked = Submission(
            kind=JobKind.WORKFLOW,
            body=_PROOF,
            workspace=WORKSPACE,
            priority=_PRIORITY,
            label="readiness",
        )
        return self._queue.submit(asked)


def _deaths(seats: Sequence[Seat]) -> tuple[str, ...]:
    """How the workers ended, where every one of them did so the last time that it was started."""
    ends = [(seat.device, seat.last_exit) for seat in seats]
    if not all(end is not None and end.cause.is_death for _, end in ends):
        return ()
    return tuple(f"the worker of {device} died: {end.reason}" for device, end in ends if end is not None)
