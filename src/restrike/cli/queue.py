"""`restrike queue`: whether a server starts and accepts jobs; pause, drain, resume. It touches no job."""

from __future__ import annotations

import json as jsons
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from restrike.cli import verbs
from restrike.cli.server_options import ServerOptions, client_of
from restrike.errors import Unknown

if TYPE_CHECKING:
    from restrike.client.client import Client

_WISHES = ("pause", "resume", "drain")
_COUNTED = 200


@dataclass(frozen=True, kw_only=True)
class Options(ServerOptions):
    """The options of `restrike queue`."""

    wish: Annotated[
        str,
        typer.Argument(
            metavar="[pause|resume|drain]",
            help="pause: nothing new starts. drain: nothing new is accepted. resume: both again.",
        ),
    ] = ""


def register(app: typer.Typer) -> None:
    """Add the verb."""
    verbs.add(app, "queue", Options, queue)


def queue(options: Options) -> None:
    """Pause, drain or resume a server's queue, or tell how it stands."""
    client = client_of(options)
    found = _switched(client, options.wish)
    if options.json:
        typer.echo(jsons.dumps(found, indent=2))
        return
    typer.echo("paused: nothing new starts" if found["paused"] else "running: waiting jobs start")
    typer.echo("draining: nothing new is accepted" if found["draining"] else "open: new jobs are accepted")
    counted = f"{_count(client, 'running')} running, {_count(client, 'queued')} waiting"
    typer.echo(f"{counted} in workspace {client.workspace}")


def _count(client: Client, state: str) -> str:
    from restrike.server.jobs.model import JobState

    found = len(client.jobs(state=JobState(state), limit=_COUNTED))
    return f"{_COUNTED} or more" if found == _COUNTED else str(found)


def _switched(client: Client, wish: str) -> dict[str, bool]:
    match wish:
        case "":
            return client.switches()
        case "pause":
            return client.switch(paused=True)
        case "drain":
            return client.switch(draining=True)
        case "resume":
            return client.switch(paused=False, draining=False)
        case _:
            hint = "`restrike cancel JOB` stops a job; `pause` lets nothing new start."
            raise Unknown("wish", wish, _WISHES, hint=hint)
