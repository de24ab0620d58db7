"""`restrike cancel JOB`: stop a job of a server, by its id and no other."""

from __future__ import annotations

import json as jsons
from dataclasses import dataclass

import typer

from restrike.cli import verbs
from restrike.cli.server_options import JobOptions, client_of


@dataclass(frozen=True, kw_only=True)
class Options(JobOptions):
    """The options of `restrike cancel`."""


def register(app: typer.Typer) -> None:
    """Add the verb."""
    verbs.add(app, "cancel", Options, cancel)


def cancel(options: Options) -> None:
    """Stop a job: at once while it waits, at its next step when it runs."""
    from restrike.cli.wait import told

    job = client_of(options).cancel(options.job)
    if options.json:
        typer.echo(jsons.dumps(told(job), indent=2, ensure_ascii=False))
    elif job.state == "cancelled":
        typer.echo(f"{job.id} cancelled")
    elif job.state.is_final:
        typer.echo(f"{job.id} had already ended ({job.state}); nothing was cancelled")
    else:
        typer.echo(f"{job.id} will stop at its next step")
