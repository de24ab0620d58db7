"""Runs and the gallery: what was made, of what, and doing it again."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Annotated, Any, BinaryIO

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from restrike.errors import NotFound
from restrike.server.api.asking import (
    HERE,
    Limit,
    TheGrant,
    TheService,
    Workspace,
    heavy,
    may_be_trusted,
)
from restrike.server.api.bodies import RerunForm
from restrike.server.api.jobs import detail
from restrike.server.api.serving import served
from restrike.server.export import write_zip
from restrike.server.gallery import Kept, Place, newest, prompt_of
from restrike.server.jobs.model import JobKind
from restrike.server.problems import Rejected
from restrike.server.security.confined import inside
from restrike.server.service import Service
from restrike.server.submitting import Terms, Work, submit
from restrike.server.views import MEDIA, files_of, run_view
from restrike.workflow.explain import described
from restrike.workflow.runs import RunFolder

router = APIRouter(prefix="/api", tags=["runs"])
Before = Annotated[str | None, Query(max_length=200, description="`next` of the last answer.")]
_RUN = "/runs/{workflow}/{number}"
_CHUNK_BYTES = 1 << 16


@router.get("/runs", summary="List runs, the newest first")
def list_runs(
    service: TheService, workspace: Workspace = HERE, limit: Limit = 50, before: Before = None
) -> Any:
    """Those of one workspace, with their steps. `next` leads to the ones before them."""
    found, more = _page(newest(service.workspace(workspace), _place(before)), limit)
    return service.shown({"runs": [run_view(kept.manifest, workspace) for kept in found], "next": more})


@router.get("/gallery", summary="Pictures, clips and sounds, the newest first")
def read_gallery(
    service: TheService, workspace: Workspace = HERE, limit: Limit = 50, before: Before = None
) -> Any:
    """Each with the run and step that made it, and the prompt where one is written. `limit` counts runs."""
    found, more = _page(newest(service.workspace(workspace), _place(before)), limit)
    files = [file for kept in found for file in _pictured(kept, workspace)]
    return service.shown({"files": files, "next": more})


@router.get(_RUN, summary="Look at one run")
def read_run(workflow: str, number: str, service: TheService, workspace: Workspace = HERE) -> Any:
    """Its manifest; the number may be `latest`."""
    return service.shown(run_view(_folder(service, workspace, workflow, number).manifest(), workspace))


@router.get(f"{_RUN}/definition", summary="What ran")
def read_definition(workflow: str, number: str, service: TheService, workspace: Workspace = HERE) -> Any:
    """The workflow with all that was decided written into it; running it again decides the same."""
    return service.shown(_definition(_folder(service, workspace, workflow, number)))


@router.get(f"{_RUN}/explain", summary="Why each step was reused or computed")
async def explain(workflow: str, number: str, service: TheService, workspace: Workspace = HERE) -> Any:
    """With the parts of the key that differed from the nearest earlier one, and what computed it."""
    session = service.session(workspace, trusted=True)
    found = await heavy(service, lambda: session.explain(f"{workflow}/{number}"))
    return service.shown({"steps": [described(step) for step in found]})


@router.get(f"{_RUN}/export", summary="All of a run as one zip", response_class=StreamingResponse)
async def export(workflow: str, number: str, service: TheService, workspace: Workspace = HERE) -> Response:
    """The workflow as it was realized, the manifest, the inputs and the outputs."""
    folder = _folder(service, workspace, workflow, number)

    def make() -> BinaryIO:
        # Closed by whoever reads it; it has no name, so nothing of it can stay.
        file: BinaryIO = tempfile.TemporaryFile(dir=service.place.folder)  # noqa: SIM115
        write_zip(file, service.workspace(workspace), folder, workspace)
        return file

    file = await heavy(service, make)
    size_bytes = file.tell()
    file.seek(0)
    name = folder.name.replace("/", "-")
    headers = {
        "content-disposition": f'attachment; filename="{name}.zip"',
        "content-length": str(size_bytes),
    }
    return StreamingResponse(_read(file), media_type="application/zip", headers=headers)


@router.post(f"{_RUN}/rerun", status_code=202, summary="Run it again")
async def rerun(
    workflow: str,
    number: str,
    service: TheService,
    grant: TheGrant,
    workspace: Workspace = HERE,
    form: RerunForm | None = None,
) -> Any:
    """The run's own definition, or its call of an endpoint, as a new job; trusted as whoever asks may be."""
    form = form or RerunForm()

    def do() -> dict[str, Any]:
        folder = _folder(service, workspace, workflow, number)
        work = replace(_again(folder, workspace, form.chosen()), trusted=may_be_trusted(grant))
        return detail(service, submit(service, work, Terms(client_id=form.client_id)))

    return await heavy(service, do)


def _again(folder: RunFolder, workspace: str, seed: int | None) -> Work:
    definition = _definition(folder)
    kind, body = JobKind.WORKFLOW, {"definition": definition, "name": folder.path.parent.name, "seed": seed}
    if "endpoint" in definition:
        kind, body = JobKind.ENDPOINT, {**definition, "seed": definition["seed"] if seed is None else seed}
    return Work(kind=kind, body=body, workspace=workspace)


@router.delete(_RUN, status_code=204, summary="Delete a run")
def delete_run(workflow: str, number: str, service: TheService, workspace: Workspace = HERE) -> None:
    """With its files; no other run and no kept result needs them."""
    _folder(service, workspace, workflow, number).delete()


@router.get(f"{_RUN}/provenance/{{file:path}}", summary="What made a file")
def read_provenance(
    workflow: str, number: str, file: str, service: TheService, workspace: Workspace = HERE
) -> Any:
    """As it is written in the file itself."""
    from restrike.media import provenance_of

    path = inside(_folder(service, workspace, workflow, number).path, file, "file")
    found = provenance_of(path)
    if found is None:
        raise NotFound(f"'{file}' does not say what made it")
    return service.shown(asdict(found))


@router.head(f"{_RUN}/files/{{file:path}}", include_in_schema=False)
@router.get(f"{_RUN}/files/{{file:path}}", summary="Read a file of a run")
def read_file(
    workflow: str,
    number: str,
    file: str,
    request: Request,
    service: TheService,
    workspace: Workspace = HERE,
) -> Response:
    """Whole or by ranges."""
    folder = _folder(service, workspace, workflow, number)
    known = {record.file for step in folder.manifest().steps for record in step.files}
    if file not in known:
        raise NotFound(f"no file '{file[:200]}' in run '{folder.name}'")
    return served(inside(folder.path, file, "file"), request)


def _folder(service: Service, workspace: str, workflow: str, number: str) -> RunFolder:
    return RunFolder.open(service.workspace(workspace), f"{workflow}/{number}")


def _pictured(kept: Kept, workspace: str) -> Iterator[dict[str, Any]]:
    """The files of a run that a browser shows."""
    manifest = kept.manifest
    files = [file for file in files_of(manifest, workspace) if file["media_type"] in MEDIA.values()]
    definition = _definition(kept.folder) if files else {}
    for file in files:
        about = {"run": manifest.run, "seed": manifest.seed, "started": manifest.started}
        yield {**file, **about, "prompt": prompt_of(definition, file["step"])}


def _definition(folder: RunFolder) -> Any:
    try:
        return json.loads(folder.definition().read_text(encoding="utf-8"))
    except OSError as error:
        raise NotFound(f"run '{folder.name}' has no definition yet") from error


def _page(runs: Iterator[Kept], limit: int) -> tuple[list[Kept], str | None]:
    found = [kept for kept, _ in zip(runs, range(limit), strict=False)]
    more = f"{found[-1].place[0]}:{found[-1].place[1]}" if len(found) == limit else None
    return found, more


def _place(before: str | None) -> Place | None:
    if before is None:
        return None
    changed_ns, _, name = before.partition(":")
    if not changed_ns.isascii() or not changed_ns.isdigit() or len(changed_ns) > 20:
        raise Rejected(400, "before: give back `next` of an answer as it was")
    return int(changed_ns), name


def _read(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while part := file.read(_CHUNK_BYTES):
            yield part
