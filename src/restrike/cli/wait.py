"""`restrike wait JOB`: watch a job of a server to its end, and take its files home."""

from __future__ import annotations

import json as jsons
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from restrike.cli import verbs
from restrike.cli.server_options import JobOptions, client_of
from restrike.errors import Refused, Unknown

if TYPE_CHECKING:
    from restrike.client.client import Client
    from restrike.client.results import Job


def _folder(path: Path | None) -> Path | None:
    """Refuse a file's name, as `generate` takes one: a job has any number of files, which have names."""
    from restrike.media.containers import container_for

    if path is not None and not path.is_dir():
        with suppress(Unknown):
            kind = container_for(path).suffixes[0].removeprefix(".")
            said = f"as in -o here; submit --kind {kind} says the kind"
            raise Refused(f"-o {path}: a job's files go into a folder, {said}")
    return path


Output = Annotated[
    Path | None,
    typer.Option(
        "-o", "--output", metavar="FOLDER", help="Download the job's files there.", callback=_folder
    ),
]

Wait = Annotated[bool, typer.Option("--wait", help="Wait for it, as `restrike wait` does.")]


@dataclass(frozen=True, kw_only=True)
class Options(JobOptions):
    """The options of `restrike wait`."""

    output: Output = None


def register(app: typer.Typer) -> None:
    """Add the verb."""
    verbs.add(app, "wait", Options, wait)


def wait(options: Options) -> None:
    """Wait until a job has ended; its files are listed, or downloaded with -o."""
    finish(client_of(options), options.job, options.output, as_json=options.json)


def submitted(client: Client, job: Job, *, wait: bool, folder: Path | None, as_json: bool) -> None:
    """Tell of a job that was accepted: its id, or when it shall be waited for, its end and its files."""
    if wait or folder is not None:
        if not as_json:
            typer.echo(f"job {job.id}", err=True)
        finish(client, job.id, folder, as_json=as_json)
    elif as_json:
        typer.echo(jsons.dumps(told(job), indent=2, ensure_ascii=False))
    else:
        typer.echo(job.id)


def finish(client: Client, name: str, folder: Path | None, *, as_json: bool) -> None:
    """Wait for a job and tell of its files; raises what kept it from succeeding."""
    from restrike.cli.failures import Unfinished
    from restrike.cli.following import follow

    job = follow(client, name)
    paths = [None if folder is None else str(client.download(file, folder)) for file in job.files]
    found = told(job)
    found["files"] = [asdict(file) | {"path": path} for file, path in zip(job.files, paths, strict=True)]
    if job.error is not None:
        raise Unfinished(job.error, {"job": found})
    if as_json:
        typer.echo(jsons.dumps(found, indent=2, ensure_ascii=False))
        return
    for file, path in zip(job.files, paths, strict=True):
        typer.echo(path or file.file)


def told(job: Job) -> dict[str, Any]:
    """A job as `--json` prints it."""
    return asdict(job)
