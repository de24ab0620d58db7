"""Why a waiting job waits, in one line: what its queue and the workers are now. It changes nothing."""

from __future__ import annotations

from restrike.server.jobs.model import Job
from restrike.server.service import Service
from restrike.server.workers import no_room


def why_waiting(service: Service, job: Job, ahead: int) -> str:
    """Why a job that is queued does not run yet, with so many jobs ahead of it."""
    if service.switches.states()["paused"]:
        return "the queue is paused; resume it"
    workers = service.workers.live()
    if not workers:
        return "no worker is there to take jobs; /readyz says why"
    refusal = no_room(workers, job.need_bytes)
    if refusal is not None:
        return f"{refusal}; it ends as failed if no larger one comes"
    return f"{ahead} ahead of it in the queue" if ahead else "the next worker that is free takes it"
