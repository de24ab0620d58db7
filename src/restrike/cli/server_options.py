"""What all verbs that talk to a server take, and the client that it makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from restrike.settings import settings

if TYPE_CHECKING:
    from restrike.client.client import Client

JobName = Annotated[str, typer.Argument(metavar="JOB", help="The job's id, as submit and jobs print it.")]


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """Which server. Its token is RESTRIKE_TOKEN alone, for others can read a command line."""

    server: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The server's address; RESTRIKE_SERVER, or this machine's."),
    ] = None
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False


@dataclass(frozen=True, kw_only=True)
class JobOptions(ServerOptions):
    """The options of a verb on one job."""

    job: JobName


def client_of(options: ServerOptions, *, workspace: str = "default") -> Client:
    """The client that the options and the settings ask for; raises Refused for an address that is none."""
    from restrike.client.client import Client

    return Client(options.server or settings().server, token=settings().token or None, workspace=workspace)
