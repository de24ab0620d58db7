"""`restrike plan FILE`: what a run would reuse and what it would compute. Imports no torch, runs nothing."""

from __future__ import annotations

import json as jsons
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from restrike.cli import verbs
from restrike.cli.workflow_options import WorkflowOptions

if TYPE_CHECKING:
    from restrike.workflow.plan import Plan, Row


@dataclass(frozen=True, kw_only=True)
class Options(WorkflowOptions):
    """The options of `restrike plan`."""

    seed: Annotated[int | None, typer.Option(help="Takes the place of the workflow's seed.")] = None
    rerun: Annotated[
        list[str], typer.Option(metavar="STEP", help="As if this step ran whatever is kept.")
    ] = field(default_factory=list)
    device: Annotated[str | None, typer.Option(help="cpu, cuda:0, ...; the best one if left out.")] = None
    precision: Annotated[str | None, typer.Option(help="float32, bfloat16 or float16.")] = None
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False


def register(app: typer.Typer) -> None:
    """Add the verb."""
    verbs.add(app, "plan", Options, plan)


def plan(options: Options) -> None:
    """Show what a run would reuse, what it would compute, and how long that takes."""
    from restrike.cli.session import asked_of, session_of
    from restrike.workflow.source import read_file

    source = read_file(options.file)
    asked = asked_of(options, source, seed=options.seed, rerun=options.rerun)
    found = session_of(options, options.device, options.precision).plan(source, asked)
    if options.json:
        total = {"seconds": found.seconds, "download_bytes": found.download_bytes}
        typer.echo(jsons.dumps({**asdict(found), **total}, indent=2, ensure_ascii=False))
        return
    _show(found)


def _show(found: Plan) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from restrike.cli.tables import show, size_of
    from restrike.workflow.plan import Status

    colours = {Status.REUSED: "green", Status.RUNS: "yellow", Status.MAY_RUN: "cyan"}
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title, justify in (("step", "left"), ("does", "left"), ("", "left"), ("expected", "right")):
        table.add_column(title, justify=justify, overflow="fold")  # pyright: ignore[reportArgumentType]
    for row in found.rows:
        table.add_row(
            Text(row.action), Text(row.label), Text(_status(row), colours[row.status]), _expected(row)
        )
    runs = sum(row.status is not Status.REUSED for row in found.rows)
    fetched = f", {size_of(found.download_bytes)} to download" if found.download_bytes else ""
    summary = f"{len(found.rows) - runs} reused, {runs} to run, {_total(found)}{fetched}"
    show(table, Text(summary, style="bold"), *(Text(f"note: {notice}") for notice in found.notices))


def _total(found: Plan) -> str:
    """The expected time; of what never ran here nothing is known, and a sum without it would promise."""
    known = [row.seconds is not None for row in found.rows if row.seconds != 0]
    if all(known):
        return f"about {found.seconds:.1f} s"
    if any(known):
        return f"about {found.seconds:.1f} s and what never ran here"
    return "how long is not known yet"


def _status(row: Row) -> str:
    from restrike.workflow.plan import Status

    if row.status is Status.MAY_RUN:
        verb = "yields" if len(row.unless) == 1 else "yield"
        return f"will run unless {', '.join(row.unless)} {verb} the same"
    return f"{row.status}: {row.reason}" if row.reason else str(row.status)


def _expected(row: Row) -> str:
    if row.seconds is None:
        return "never run here"
    return f"{row.seconds:.1f} s" if row.seconds else ""
