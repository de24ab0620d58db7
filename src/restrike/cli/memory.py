"""`restrike memory clear`: let a server's idle devices go of what is loaded. It stops no job."""

from __future__ import annotations

import json as jsons
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from restrike.cli import verbs
from restrike.cli.server_options import ServerOptions, client_of


@dataclass(frozen=True, kw_only=True)
class ClearOptions(ServerOptions):
    """The options of `restrike memory clear`."""

    device: Annotated[
        str | None,
        typer.Argument(metavar="[DEVICE]", help="As `cuda:0`; all that are idle if left out."),
    ] = None


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    group = verbs.group("What a server holds in memory.")
    verbs.add(group, "clear", ClearOptions, clear)
    app.add_typer(group, name="memory")


def clear(options: ClearOptions) -> None:
    """Let idle devices go of models and graphs; the next job loads what it needs."""
    from restrike.cli.tables import size_of

    found = client_of(options).clear_memory(options.device)
    if options.json:
        typer.echo(jsons.dumps({"devices": [asdict(each) for each in found]}, indent=2, ensure_ascii=False))
        return
    for each in found:
        typer.echo(f"{each.device}  {each.refusal or f'{size_of(each.freed_bytes)} freed'}")
