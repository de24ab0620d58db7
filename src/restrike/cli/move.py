"""`restrike move JOB`: let a waiting job of a server go sooner or later. One that runs stays where it is."""

from __future__ import annotations

import json as jsons
from dataclasses import dataclass
from typing import Annotated

import typer

from restrike.cli import verbs
from restrike.cli.server_options import JobOptions, client_of
from restrike.errors import Refused


@dataclass(frozen=True, kw_only=True)
class Options(JobOptions):
    """The options of `restrike move`."""

    priority: Annotated[
        int | None, typer.Option(metavar="N", help="Of waiting jobs the highest goes first; 0 is usual.")
    ] = None
    before: Annotated[
        str | None, typer.Option(metavar="JOB", help="Right before this waiting job, with its priority.")
    ] = None


def register(app: typer.Typer) -> None:
    """Add the verb."""
    verbs.add(app, "move", Options, move)


def move(options: Options) -> None:
    """Change where a waiting job stands: its priority, or its place before another."""
    from restrike.cli.wait import told

    if (options.priority is None) == (options.before is None):
        raise Refused("say one of --priority N and --before JOB")
    job = client_of(options).move(options.job, priority=options.priority, before=options.before)
    if options.json:
        typer.echo(jsons.dumps(told(job), indent=2, ensure_ascii=False))
    else:
        typer.echo(f"{job.id} has priority {job.priority} and waits for {job.position or 'no'} other jobs")
