"""The page of a server: plain files, served as they are. They ask the REST interface and nothing else."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter
from starlette.responses import FileResponse, Response

from restrike.errors import NotFound

router = APIRouter(include_in_schema=False)
_FOLDER = Path(__file__).parent / "files"
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@router.get("/")
async def page() -> Response:
    """Queue, devices, running jobs and the gallery."""
    return _file("index.html")


@router.get("/docs")
async def docs() -> Response:
    """The REST interface for people, made of its schema."""
    return _file("docs.html")


@router.get("/page/{name}")
async def file(name: str) -> Response:
    """A file of the page."""
    return _file(name)


def _file(name: str) -> Response:
    if name not in {path.name for path in _FOLDER.iterdir()}:
        raise NotFound(f"no file '{name[:80]}' of the page")
    path = _FOLDER / name
    headers = {"content-security-policy": _POLICY, "cache-control": "no-cache"}
    return FileResponse(path, media_type=_TYPES[path.suffix], headers=headers)
