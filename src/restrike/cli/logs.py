"""`restrike logs JOB`: what happened to a job of a server, a line each."""

from __future__ import annotations

import json as jsons
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from restrike.cli import verbs
from restrike.cli.server_options import JobOptions, client_of
from restrike.errors import printable

if TYPE_CHECKING:
    from restrike.server.jobs.model import JobEvent


@dataclass(frozen=True, kw_only=True)
class Options(JobOptions):
    """The options of `restrike logs`."""

    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the job has ended.")] = False


def register(app: typer.Typer) -> None:
    """Add the verb."""
    verbs.add(app, "logs", Options, logs)


def logs(options: Options) -> None:
    """Show what happened to a job."""
    client = client_of(options)
    events = client.events(options.job) if options.follow else client.happened(options.job)
    if options.json:
        found = [asdict(event) for event in events]
        typer.echo(jsons.dumps({"job": options.job, "events": found}, indent=2, ensure_ascii=False))
        return
    for event in events:
        typer.echo(line_of(event))


def line_of(event: JobEvent) -> str:
    """Time, kind and data of an event for a person."""
    when = time.strftime("%H:%M:%S", time.localtime(event.time))
    said = "  ".join(
        f"{name}={_word(value)}" for name, value in event.data.items() if value not in (None, "")
    )
    return printable(f"{when}  {event.kind:<10}  {said}".rstrip())


def _word(value: object) -> str:
    text = value if isinstance(value, str) else jsons.dumps(value, ensure_ascii=False)
    return jsons.dumps(text, ensure_ascii=False) if " " in text and isinstance(value, str) else text
