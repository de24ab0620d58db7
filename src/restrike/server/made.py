"""The files that a job made, where they lie and where they are served. Opens none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from restrike.errors import NotFound
from restrike.server.jobs.model import Job
from restrike.server.service import Service
from restrike.server.views import file_url
from restrike.workflow.runs import RunFolder


@dataclass(frozen=True, kw_only=True)
class MadeFile:
    """One file: its name in the run, its path, which is never told, and the one under which it is served."""

    name: str
    step: str
    path: Path
    url: str
    size_bytes: int
    sha256: str


def seed_of(file: MadeFile) -> int | None:
    """The seed that makes the picture or clip again; a job that was given none has drawn one."""
    from restrike.media import provenance_of

    found = provenance_of(file.path)
    return None if found is None else found.seed


def made(service: Service, job: Job) -> tuple[MadeFile, ...]:
    """The files of a job with a run, in order; raises NotFound when the run or a file was deleted."""
    folder = RunFolder.open(service.workspace(job.workspace), job.run or "")
    manifest = folder.manifest()
    found = tuple(
        MadeFile(
            name=file.file,
            step=step.action,
            path=folder.path / file.file,
            url=file_url(manifest.run, file.file, job.workspace),
            size_bytes=file.size_bytes,
            sha256=file.sha256,
        )
        for step in manifest.steps
        for file in step.files
    )
    if not all(file.path.is_file() for file in found):
        raise NotFound(f"the files of job '{job.id}' were deleted")
    return found
