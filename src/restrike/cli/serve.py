"""`restrike serve`: the server on this machine, until it is stopped. It needs the extra [server]."""

from __future__ import annotations

import socket
import sys
import threading
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from restrike.cli import verbs
from restrike.errors import Refused

if TYPE_CHECKING:
    import uvicorn

    from restrike.server.hosting import Hosting
    from restrike.server.service import Service

NEEDED = ("alembic", "fastapi", "jsonschema", "mcp", "prometheus_client", "python_multipart", "uvicorn")
"""What the extra brings, as it is imported."""
_LOOK_S = 0.05
_BACKLOG = 1024
_WHERE, _WHO, _MACHINE = "Where", "Who may ask", "Machine"

Data = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Where queue, workspaces and logs are kept; a folder of the user's.",
        rich_help_panel=_WHERE,
    ),
]
DatabaseUrl = Annotated[
    str,
    typer.Option(
        metavar="URL",
        help="postgresql+psycopg://USER@HOST/NAME; a file in the data folder if left out.",
        rich_help_panel=_WHERE,
    ),
]


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of `restrike serve`."""

    host: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="Another than 127.0.0.1 needs a token.", rich_help_panel=_WHERE),
    ] = "127.0.0.1"
    port: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, max=65535, help="8420 by default; 0 takes a free one.", rich_help_panel=_WHERE
        ),
    ] = 8420
    data: Data = None
    database: DatabaseUrl = ""
    workspace: Annotated[
        list[str],
        typer.Option(
            metavar="NAME", help="Have this workspace beside `default`; repeatable.", rich_help_panel=_WHERE
        ),
    ] = field(default_factory=list)
    allow_host: Annotated[
        list[str],
        typer.Option(
            metavar="NAME", help="A name that the server is called by; repeatable.", rich_help_panel=_WHO
        ),
    ] = field(default_factory=list)
    allow_origin: Annotated[
        list[str],
        typer.Option(
            metavar="ORIGIN",
            help="Its pages may call: https://studio.example; repeatable.",
            rich_help_panel=_WHO,
        ),
    ] = field(default_factory=list)
    devices: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="A worker each: cuda:0,cuda:1 or cpu:0,cpu:1; all GPUs, or the CPU.",
            rich_help_panel=_MACHINE,
        ),
    ] = None
    precision: Annotated[
        str | None,
        typer.Option(metavar="DTYPE", help="float32, bfloat16 or float16.", rich_help_panel=_MACHINE),
    ] = None
    capture: Annotated[
        str,
        typer.Option(
            metavar="MODE", help="Replay steps as graphs: auto, off, tape, cuda.", rich_help_panel=_MACHINE
        ),
    ] = "auto"
    cells: Annotated[
        str | None,
        typer.Option(
            metavar="MODE", help="Use compiled calls: auto, require or off.", rich_help_panel=_MACHINE
        ),
    ] = None
    mint: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN", help="Compile what is missing meanwhile: background.", rich_help_panel=_MACHINE
        ),
    ] = None
    allow_code: Annotated[
        list[Path],
        typer.Option(
            metavar="FILE", help="A Python file with tasks of your own; it is run.", rich_help_panel=_MACHINE
        ),
    ] = field(default_factory=list)
    endpoints: Annotated[
        list[str],
        typer.Option(
            metavar="FILE",
            help="Endpoints to serve: FILE.py[:NAME] or a module; repeatable. Its code is run by workers.",
            rich_help_panel=_MACHINE,
        ),
    ] = field(default_factory=list)
    slot: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=CARD",
            help="The model in a slot of them; repeatable.",
            rich_help_panel=_MACHINE,
        ),
    ] = field(default_factory=list)
    drain: Annotated[
        bool,
        typer.Option(
            "--drain", help="When stopped, let jobs that run come to their end.", rich_help_panel=_MACHINE
        ),
    ] = False


def register(app: typer.Typer) -> None:
    """Add the verb."""
    verbs.add(app, "serve", Options, serve)


def serve(options: Options) -> None:
    """Serve jobs over REST, OpenAI's shapes and MCP; a restart goes on."""
    check_extra()
    # First of all, before imports of seconds: who comes too early waits for an answer and is not turned away.
    listener = _listener(options.host, options.port)
    with listener:
        from restrike.server.hosting import host, listening

        hosting = _hosting(options)
        for warning in hosting.catalogue.warnings:
            typer.echo(f"warning: {warning}", err=True)
        app = host(hosting)
        config = listening(app, host=options.host, port=options.port)
        _run(config, listener, app.state.service)


def check_extra() -> None:
    """Refuse, naming the extra, when what a server needs is not installed."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise Refused(f"a server needs {', '.join(missing)}: pip install 'restrike[server]'")


def data_folder(given: Path | None) -> Path:
    """The data folder of a server, absolute."""
    from platformdirs import user_data_path

    return (given or user_data_path("restrike", appauthor=False) / "server").absolute()


def _hosting(options: Options) -> Hosting:
    from restrike.cli.endpoints import slots_of as models_of
    from restrike.engine.capture.modes import checked_mode
    from restrike.server.devices import slots_here, slots_of
    from restrike.server.endpoints.catalogue import catalogue
    from restrike.server.hosting import Hosting
    from restrike.server.place import Place
    from restrike.server.pool import PoolOptions
    from restrike.server.security.access import Access

    return Hosting(
        place=Place(folder=data_folder(options.data), database=options.database),
        slots=slots_here() if options.devices is None else slots_of(options.devices),
        pool=PoolOptions(
            precision=options.precision,
            capture=checked_mode(options.capture),
            cells=options.cells,
            mint=options.mint,
            allow_code=tuple(path.absolute() for path in options.allow_code),
        ),
        catalogue=catalogue(options.endpoints, models_of(options.slot)),
        access=Access(
            host=options.host, hosts=tuple(options.allow_host), origins=tuple(options.allow_origin)
        ),
        workspaces=tuple(options.workspace),
        drain=options.drain,
    )


def _listener(host: str, port: int) -> socket.socket:
    """The socket, had before anything is started; raises Refused when it cannot be."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        family, _, _, _, address = found[0]
        # The protocol by its number, not 0: only then asyncio sends each part of an answer at once, where it
        # would else wait 40 ms for the reader's acknowledgement of the part before.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise Refused(f"--host {host}: {error.strerror or error}; give another") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise Refused(f"--host {host} --port {port}: {error.strerror or error}; give another") from error
    return listener


def _run(config: uvicorn.Config, listener: socket.socket, service: Service) -> None:
    """Serve until stopped; says on stdout where, once a request has passed through a worker."""
    import uvicorn

    server = uvicorn.Server(config)
    host, port = listener.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    typer.echo(f"starting {url}; wait until it says that it listens", err=True)
    ended = threading.Event()
    telling = threading.Thread(target=_tell_when_ready, args=(service, url, ended), daemon=True)
    telling.start()
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        # uvicorn has ended all in order, and then passes the interrupt on. Nothing comes of that where a
        # shell lets what it starts in the background ignore interrupts, which uvicorn does not.
        pass
    finally:
        ended.set()
        telling.join()
    typer.echo("stopped; jobs that were not finished go on with the next start", err=True)


def _tell_when_ready(service: Service, url: str, ended: threading.Event) -> None:
    """Say that the server is ready, or why it is not, as soon as that is known."""
    first = said = service.not_ready()
    while not ended.wait(_LOOK_S):
        why = service.not_ready()
        if why is None:
            typer.echo(f"listening on {url}")
            sys.stdout.flush()
            return
        if why not in (first, said):
            typer.echo(f"not ready: {why}", err=True)
            said = why
