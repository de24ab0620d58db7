"""Waits for a job for a request that has no other answer: when its client goes, the job is cancelled.

A job that others may wait for is never cancelled so: one that was submitted for its id (a video, everything
under `/api`), or with a key of idempotency.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial

import anyio
import anyio.to_thread
from fastapi import Request

from restrike.errors import Cancelled
from restrike.server.jobs.model import Job, JobEvent, JobState
from restrike.server.openai.asking import stops_with_its_client
from restrike.server.openai.failures import of_job
from restrike.server.service import Service
from restrike.server.streaming import Follow


def events_of(service: Service, job: Job) -> AsyncGenerator[JobEvent | None, None]:
    """What happens to a job from its beginning to its end, None for each pause."""
    return Follow(
        news=service.news,
        history=service.history,
        after=0,
        job=job.id,
        shown=service.shown,
    ).events()


async def succeeded(service: Service, job: Job, request: Request) -> Job:
    """The job when it has succeeded; raises its failure otherwise, and Cancelled when the client has gone."""
    gone = False

    async def look() -> None:
        nonlocal gone
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone = True
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(look)
        async for _ in events_of(service, job):
            pass
        group.cancel_scope.cancel()
    if gone:
        await abandon(service, job, request)
        raise Cancelled("the client went away")
    return await outcome(service, job)


async def outcome(service: Service, job: Job) -> Job:
    """A job that has ended; raises its failure when it did not succeed."""
    ended = await anyio.to_thread.run_sync(service.queue.job, job.id)
    if ended.state is JobState.CANCELLED:
        raise Cancelled(f"job '{job.id}' was cancelled")
    if ended.state is not JobState.SUCCEEDED:
        raise of_job(ended.failure, str(ended.state))
    return ended


async def abandon(service: Service, job: Job, request: Request) -> None:
    """Ask a job to stop whose client has gone, unless another one may wait for it."""
    if stops_with_its_client(request):
        await cancel(service, job)


async def cancel(service: Service, job: Job) -> None:
    """Ask a job to stop, and let its worker know; done even while the asking task is being cancelled."""
    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(partial(_cancel, service, job.id))


def _cancel(service: Service, name: str) -> None:
    service.queue.cancel(name)
    service.waking()
