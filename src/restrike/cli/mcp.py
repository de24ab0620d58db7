"""`restrike mcp`: a server's tools for an agent that starts programs and speaks MCP with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from restrike.cli import verbs
from restrike.cli.serve import check_extra
from restrike.settings import settings


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of `restrike mcp`. Its token is RESTRIKE_TOKEN: others can read a command line."""

    server: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The server's address; RESTRIKE_SERVER, or this machine's."),
    ] = None


def register(app: typer.Typer) -> None:
    """Add the verb."""
    verbs.add(app, "mcp", Options, mcp)


def mcp(options: Options) -> None:
    """Speak MCP on standard input and output for a server that runs; agents start it."""
    check_extra()
    import anyio

    from restrike.server.mcp.bridge import serve

    anyio.run(serve, (options.server or settings().server).rstrip("/"), settings().token or None)
