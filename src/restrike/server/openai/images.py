"""`POST /v1/images/generations` and `/v1/images/edits`: pictures, answered whole or as a stream of events."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio.to_thread
from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from restrike.server.api.asking import TheService, heavy
from restrike.server.openai.asked import ImageAsked, image_body
from restrike.server.openai.asking import card_of, form_of, submitted, workspace_of
from restrike.server.openai.failures import BadField, OpenAIRoute
from restrike.server.openai.pictures import Answering
from restrike.server.openai.uploading import kept_picture
from restrike.server.openai.waiting import succeeded
from restrike.server.service import Service

_FORM = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["model", "prompt", "image"],
                    "properties": {
                        "model": {"type": "string"},
                        "prompt": {"type": "string"},
                        "image": {"type": "string", "format": "binary"},
                    },
                }
            }
        },
    }
}


router = APIRouter(prefix="/v1/images", tags=["openai"], route_class=OpenAIRoute)


@router.post("/generations", summary="Make pictures", response_model=None)
async def generations(asked: ImageAsked, request: Request, service: TheService) -> Any:
    """Answered when made; a client that goes away cancels them, unless it sent an Idempotency-Key."""
    card = await heavy(service, partial(card_of, asked.model))
    return await _made(service, request, asked, image_body(asked, card), "image_generation")


@router.post("/edits", summary="Make pictures from one", response_model=None, openapi_extra=_FORM)
async def edits(request: Request, service: TheService) -> Any:
    """As generations, for a card that takes a picture; it is kept among the workspace's assets."""
    asked, uploads = await form_of(request, ImageAsked, ("image",))
    if len(uploads) != 1:
        raise BadField("image", f"send one picture, not {len(uploads)}")
    card = await heavy(service, partial(card_of, asked.model))
    image_body(asked, card, image="")  # nothing is kept for a request that is refused
    kept = await kept_picture(service, workspace_of(request), uploads[0], "image")
    return await _made(service, request, asked, image_body(asked, card, kept), "image_edit")


async def _made(
    service: Service, request: Request, asked: ImageAsked, body: dict[str, Any], kind: str
) -> Response | dict[str, Any]:
    job = await heavy(service, partial(submitted, service, request, body))
    answering = Answering(service=service, request=request, job=job, asked=asked, kind=kind)
    if asked.stream:
        frames = answering.frames()
        return StreamingResponse(
            frames, media_type="text/event-stream", headers={"cache-control": "no-store"}
        )
    ended = await succeeded(service, job, request)
    return await anyio.to_thread.run_sync(answering.whole, ended, str(request.base_url))
