"""Whether the server lives, whether it is ready, and what it counts."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from restrike.server.api.asking import TheService

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="Whether the server answers")
async def healthz() -> Any:
    """Always the same; who answers is alive."""
    return {"status": "ok"}


@router.get("/readyz", summary="Whether jobs will run", responses={503: {"description": "Not yet."}})
def readyz(service: TheService) -> Response:
    """Ready after one real request passed through a worker."""
    why = service.not_ready()
    if why is None:
        return JSONResponse({"status": "ready"})
    return JSONResponse({"status": "not ready", "why": service.shown(why)}, status_code=503)


@router.get("/metrics", summary="Counts for Prometheus", response_class=Response)
def metrics(request: Request) -> Response:
    """In the text form of Prometheus."""
    return request.app.state.metrics.answer()
