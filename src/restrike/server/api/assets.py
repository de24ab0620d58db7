"""Assets: upload, fetch by URL, keep what a run made, read, delete."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Query, Request
from fastapi.concurrency import contextmanager_in_threadpool
from starlette.responses import Response

from restrike.server.api.asking import HERE, TheService, Workspace
from restrike.server.api.bodies import Form
from restrike.server.api.serving import served
from restrike.server.assets import Assets
from restrike.server.problems import Rejected
from restrike.server.security.limits import Disconnected, chunks
from restrike.server.service import Service

router = APIRouter(prefix="/api/assets", tags=["assets"])
Replace = Annotated[bool, Query(description="Whether one of that name may go.")]


class FetchForm(Form):
    """A file on the open internet that becomes an asset."""

    url: str
    name: str
    workspace: str = HERE
    replace: bool = False


class KeepForm(Form):
    """A file of a run that becomes an asset."""

    run: str
    file: str
    name: str
    workspace: str = HERE
    replace: bool = False


@router.get("", summary="List the assets of a workspace")
def list_assets(service: TheService, workspace: Workspace = HERE) -> Any:
    """By name. A workflow reads one as `$asset.NAME`."""
    return {"assets": [asdict(asset) for asset in _assets(service, workspace).listed()]}


@router.post("/fetch", status_code=201, summary="Make an asset of what is behind a URL")
async def fetch_asset(form: FetchForm, service: TheService) -> Any:
    """Only http and https, only from the open internet, by redirects too; within a limit of bytes."""

    def fetch() -> None:
        assets = _assets(service, form.workspace)
        with (
            assets.written(form.name, replace=form.replace) as file,
            service.fetcher.fetch(form.url) as found,
        ):
            for part in found.parts:
                file.write(part)

    await anyio.to_thread.run_sync(fetch, limiter=service.fetching)
    return _made(service, form.workspace, form.name)


@router.post("/keep", status_code=201, summary="Keep a file of a run")
def keep_file(form: KeepForm, service: TheService) -> Any:
    """A copy of its own, which stays when the run is deleted."""
    _assets(service, form.workspace).keep(form.run, form.file, form.name, replace=form.replace)
    return _made(service, form.workspace, form.name)


@router.head("/{name:path}", include_in_schema=False)
@router.get("/{name:path}", summary="Read an asset")
def read_asset(name: str, request: Request, service: TheService, workspace: Workspace = HERE) -> Response:
    """Whole or by ranges."""
    return served(_assets(service, workspace).path(name), request)


@router.put("/{name:path}", status_code=201, summary="Upload an asset")
async def upload_asset(
    name: str, request: Request, service: TheService, workspace: Workspace = HERE, replace: Replace = False
) -> Any:
    """The body is the file: `curl -T photo.png .../api/assets/photo.png`. Nothing stays of one cut short."""
    limits = service.limits
    try:
        # Opened and closed off the event loop, for the disk is waited for.
        written = _assets(service, workspace).written(name, replace=replace)
        async with contextmanager_in_threadpool(written) as file:
            async for part in chunks(request.receive, request.headers, limits.upload_bytes, limits.pause_s):
                await anyio.to_thread.run_sync(file.write, part)
    except Disconnected as error:
        raise Rejected(400, "the upload was cut short") from error
    return _made(service, workspace, name)


@router.delete("/{name:path}", status_code=204, summary="Delete an asset")
def delete_asset(name: str, service: TheService, workspace: Workspace = HERE) -> None:
    """Runs that read it have what they need."""
    _assets(service, workspace).delete(name)


def _assets(service: Service, workspace: str) -> Assets:
    return Assets(service.workspace(workspace))


def _made(service: Service, workspace: str, name: str) -> dict[str, Any]:
    size_bytes = _assets(service, workspace).path(name).stat().st_size
    return {"name": name, "reference": f"$asset.{name}", "size_bytes": size_bytes}
