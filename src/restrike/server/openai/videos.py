"""`/v1/videos`: a clip is a job, submitted for its id; polled, fetched, listed and deleted by it."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

import anyio.to_thread
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse

from restrike.server.api.asking import TheService, heavy
from restrike.server.openai.asked import VideoAsked, video_body
from restrike.server.openai.asking import card_of, form_of, read, submitted, workspace_of
from restrike.server.openai.clips import PAGE, clip_of, deleted, job_of, listed, shown
from restrike.server.openai.failures import BadField, OpenAIRoute
from restrike.server.openai.uploading import kept_picture
from restrike.server.service import Service

_FIELDS = {
    "type": "object",
    "required": ["model", "prompt"],
    "properties": {"model": {"type": "string"}, "prompt": {"type": "string"}},
}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {"multipart/form-data": {"schema": _FIELDS}, "application/json": {"schema": _FIELDS}},
    }
}


router = APIRouter(prefix="/v1/videos", tags=["openai"], route_class=OpenAIRoute)


@router.post("", summary="Begin a video", openapi_extra=_BODY)
async def create_video(request: Request, service: TheService) -> Any:
    """Answered with an id when the job is durable; going away does not stop it."""
    asked, image = await _asked(service, request)
    card = await heavy(service, partial(card_of, asked.model))
    body = video_body(asked, card, image)
    job = await heavy(service, partial(submitted, service, request, body))
    return await anyio.to_thread.run_sync(shown, service, job)


@router.get("", summary="List the videos, the newest first")
def list_videos(
    request: Request,
    service: TheService,
    after: str | None = None,
    limit: Annotated[int, Query(ge=1, le=PAGE)] = 20,
    order: Literal["desc"] = "desc",
) -> Any:
    """Those of one workspace; `after` is the last one that was seen."""
    return listed(service, workspace_of(request), after=after, limit=limit)


@router.get("/{video}", summary="Look how far a video is")
def read_video(video: str, service: TheService) -> Any:
    """Its status and progress. Looking changes nothing."""
    return shown(service, job_of(service, video))


@router.get("/{video}/content", summary="Fetch a video", response_class=Response)
def read_content(video: str, service: TheService, variant: Literal["video"] = "video") -> Response:
    """The clip itself, as MP4; by ranges too."""
    return FileResponse(clip_of(service, video), media_type="video/mp4")


@router.delete("/{video}", summary="Delete a video, and stop the work at it")
async def delete_video(video: str, service: TheService) -> Any:
    """It is forgotten with its files; results that are kept for reuse stay."""
    await deleted(service, video)
    return {"id": video, "object": "video.deleted", "deleted": True}


async def _asked(service: Service, request: Request) -> tuple[VideoAsked, str | None]:
    """The fields of a request, and the reference of the picture that came with it."""
    if request.headers.get("content-type", "").startswith("application/json"):
        return read(VideoAsked, await _json(request)), None
    asked, uploads = await form_of(request, VideoAsked, ("input_reference",))
    if len(uploads) > 1:
        raise BadField("input_reference", f"send one picture, not {len(uploads)}")
    if not uploads:
        return asked, None
    card = await heavy(service, partial(card_of, asked.model))
    video_body(asked, card, "")  # nothing is kept for a request that is refused
    return asked, await kept_picture(service, workspace_of(request), uploads[0], "input_reference")


async def _json(request: Request) -> dict[str, Any]:
    try:
        found = await request.json()
    except (ValueError, RecursionError) as error:
        raise BadField("body", "this is no JSON") from error
    if not isinstance(found, dict):
        raise BadField("body", "send an object")
    return found
