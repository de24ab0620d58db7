"""Jobs in the shape of OpenAI's videos: a video is a generation whose file is a clip."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from restrike.cards import registry
from restrike.cards.card import ModelCard
from restrike.errors import Conflict, NotFound, RestrikeError
from restrike.server.jobs.model import Job, JobKind, JobState
from restrike.server.made import made, seed_of
from restrike.server.openai.asked import CLIP, seconds_of, size_of
from restrike.server.openai.failures import described, of_job
from restrike.server.openai.waiting import cancel, events_of
from restrike.server.service import Service
from restrike.workflow.runs import RunFolder

STOP_S = 30.0
"""How long a deletion waits for the work to stop, which takes one denoising step."""
PAGE = 100
_STATUSES = {
    JobState.QUEUED: "queued",
    JobState.RUNNING: "in_progress",
    JobState.SUCCEEDED: "completed",
}


def job_of(service: Service, video: str) -> Job:
    """The job of a video; raises NotFound also for a job that makes no clip."""
    job = service.queue.job(video)
    if not _is_video(job):
        raise NotFound(f"no video '{video}'")
    return job


def shown(service: Service, job: Job) -> dict[str, Any]:
    """A video as OpenAI's clients read it; `seed` is ours."""
    card = _card(job)
    return {
        "id": job.id,
        "object": "video",
        "model": job.body["card"],
        "prompt": job.body.get("prompt"),
        "status": _STATUSES.get(job.state, "failed"),
        "progress": _progress(service, job),
        "created_at": int(job.created),
        "completed_at": int(job.ended or 0) if job.state is JobState.SUCCEEDED else None,
        "seconds": f"{seconds_of(job.body, card):.4g}" if card else "auto",
        "size": size_of(job.body, card) if card else "auto",
        "error": _error(service, job),
        "seed": _seed(service, job),
    }


def listed(service: Service, workspace: str, *, after: str | None, limit: int) -> dict[str, Any]:
    """The newest videos of a workspace, after one that was seen; raises NotFound."""
    seen = None if after is None else job_of(service, after)
    before = None if seen is None else (seen.created, seen.id)
    found: list[Job] = []
    while len(found) <= limit:
        page = service.history.jobs(workspace=workspace, before=before, limit=PAGE)
        found += [job for job in page if _is_video(job)]
        if len(page) < PAGE:
            break
        before = (page[-1].created, page[-1].id)
    videos = [shown(service, job) for job in found[:limit]]
    ends = {"first_id": videos[0]["id"], "last_id": videos[-1]["id"]} if videos else {}
    return {"object": "list", "data": videos, "has_more": len(found) > limit, **ends}


def clip_of(service: Service, video: str) -> Path:
    """The file of a video that is done; raises Conflict while it is not, or why it never will be."""
    job = job_of(service, video)
    if not job.state.is_final:
        raise Conflict(f"video '{video}' is not done yet, it is {_STATUSES[job.state]}")
    if job.state is not JobState.SUCCEEDED:
        raise of_job(job.failure, str(job.state))
    return made(service, job)[0].path


async def deleted(service: Service, video: str) -> None:
    """Stop the work at a video, and forget it with its files.

    Raises:
        NotFound: there is no such video.
        Conflict: its worker did not stop in time; it goes on stopping.
    """
    job = await anyio.to_thread.run_sync(job_of, service, video)
    await cancel(service, job)
    with anyio.move_on_after(STOP_S):
        async for _ in events_of(service, job):
            pass
    await anyio.to_thread.run_sync(_forget, service, job.id)


def _forget(service: Service, name: str) -> None:
    job = service.queue.job(name)
    if not job.state.is_final:
        raise Conflict(f"video '{name}' is being stopped; delete it again in a moment")
    if job.run is not None:
        with suppress(NotFound):
            RunFolder.open(service.workspace(job.workspace), job.run).delete()
    shutil.rmtree(service.place.previews / job.id, ignore_errors=True)
    service.history.drop(job.id)


def _is_video(job: Job) -> bool:
    return job.kind is JobKind.GENERATION and job.body.get("output") == CLIP


def _card(job: Job) -> ModelCard | None:
    """The card, as far as it is known without a checkpoint."""
    try:
        return registry.card(job.body["card"])
    except RestrikeError:
        return None


def _progress(service: Service, job: Job) -> int:
    if job.state is JobState.SUCCEEDED:
        return 100
    told = service.history.latest(job.id, "progress")
    if told is None or not told.data.get("total"):
        return 0
    return min(99, 100 * told.data["done"] // told.data["total"])


def _seed(service: Service, job: Job) -> int | None:
    """The one that was asked for, or that was drawn, once it is in the file."""
    if job.body.get("seed") is not None or job.state is not JobState.SUCCEEDED:
        return job.body.get("seed")
    with suppress(RestrikeError):
        return seed_of(made(service, job)[0])
    return None


def _error(service: Service, job: Job) -> dict[str, Any] | None:
    if job.state in _STATUSES:
        return None
    error = described(of_job(job.failure, str(job.state)))
    code = "cancelled" if job.state is JobState.CANCELLED else error["code"]
    return service.shown(
        {"code": code, "message": error["message"], "param": error["param"], "type": error["type"]}
    )
