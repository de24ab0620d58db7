"""`restrike run FILE`: run a workflow, reusing all that an edit does not reach."""

from __future__ import annotations

import json as jsons
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from restrike.cli import verbs
from restrike.cli.workflow_options import MintMissing, UseCells, WorkflowOptions

if TYPE_CHECKING:
    from pathlib import Path

    from restrike.workflow.runner import RunEvent
    from restrike.workflow.runs import Manifest
    from restrike.workflow.session import Session, Watch


@dataclass(frozen=True, kw_only=True)
class Options(WorkflowOptions):
    """The options of `restrike run`."""

    seed: Annotated[int | None, typer.Option(help="Takes the place of the workflow's seed.")] = None
    no_reuse: Annotated[bool, typer.Option("--no-reuse", help="Compute everything.")] = False
    rerun: Annotated[
        list[str],
        typer.Option(metavar="STEP", help="Compute this step whatever is kept; may be given often."),
    ] = field(default_factory=list)
    audit: Annotated[
        bool, typer.Option("--audit", help="Compute reused steps too, and compare their bytes.")
    ] = False
    watch: Annotated[bool, typer.Option("--watch", help="Run again whenever the file is saved.")] = False
    device: Annotated[str | None, typer.Option(help="cpu, cuda:0, ...; the best one if left out.")] = None
    precision: Annotated[str | None, typer.Option(help="float32, bfloat16 or float16.")] = None
    capture: Annotated[
        str, typer.Option(metavar="MODE", help="Replay steps as graphs: auto, off, tape, cuda.")
    ] = "auto"
    cells: UseCells = None
    mint: MintMissing = None
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object, the manifest.")] = False


def register(app: typer.Typer) -> None:
    """Add the verb."""
    verbs.add(app, "run", Options, run)


def run(options: Options) -> None:
    """Run a workflow; only what an edit reaches runs again."""
    from restrike.cli.session import session_of

    session = session_of(
        options,
        options.device,
        options.precision,
        options.capture,
        cells=options.cells,
        mint=options.mint,
    )
    if options.watch:
        _watched(options, session)
    else:
        _once(options, session)


def _once(options: Options, session: Session) -> bool:
    """Run once; whether an interrupt came too late to stop it."""
    from restrike.cli.session import asked_of
    from restrike.workflow.source import read_file

    source = read_file(options.file)
    asked = asked_of(
        options,
        source,
        seed=options.seed,
        rerun=options.rerun,
        reuse=not options.no_reuse,
        audit=options.audit,
    )
    return shown(session, lambda watch: session.run(source, asked, watch), as_json=options.json)


def shown(session: Session, start: Callable[[Watch], Manifest], *, as_json: bool) -> bool:
    """Start a run, show its steps on stderr and its files on stdout; Ctrl-C stops it at a step.

    Returns whether an interrupt came when nothing was left to stop.
    """
    from restrike.cli.interrupts import on_interrupt
    from restrike.cli.run_screen import run_screen
    from restrike.errors import Cancelled, Crashed
    from restrike.workflow.runner import Audited
    from restrike.workflow.session import Watch

    stopped = threading.Event()
    unequal: list[str] = []

    def check() -> None:
        if stopped.is_set():
            raise Cancelled("cancelled between steps; finished steps are kept")

    with run_screen() as screen, on_interrupt(stopped.set):

        def see(event: RunEvent) -> None:
            if isinstance(event, Audited) and not event.same:
                unequal.append(event.action)
            screen.show(event)

        manifest = start(Watch(run=see, engine=screen.show_engine, check=check))
    _tell(session, manifest, as_json=as_json)
    if unequal:
        raise Crashed(f"computed again, {', '.join(unequal)} gave other bytes than what is kept")
    return stopped.is_set()


def _tell(session: Session, manifest: Manifest, *, as_json: bool) -> None:
    for notice in manifest.notices:
        typer.echo(f"note: {notice}", err=True)
    if as_json:
        typer.echo(jsons.dumps(asdict(manifest), indent=2, ensure_ascii=False))
        return
    folder = session.workspace / manifest.run
    for step in manifest.steps:
        for file in step.files:
            typer.echo(folder / file.file)


def _version_of(file: Path) -> tuple[int, ...] | None:
    """What differs once a file is saved, in place or by one that takes its name; None while it is away."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _watched(options: Options, session: Session) -> None:
    """Run whenever the file changes, until interrupted; a fault in it is told and waited out."""
    import time

    from restrike.cli.failures import tell
    from restrike.errors import Cancelled, RestrikeError

    seen = None
    while True:
        now = _version_of(options.file)
        if now is not None and now != seen:
            seen = now
            try:
                if _once(options, session):
                    raise Cancelled("interrupted")
            except Cancelled:
                raise
            except RestrikeError as error:
                tell(error)
            typer.echo(f"waiting for {options.file} to be saved; Ctrl-C stops", err=True)
        time.sleep(0.2)
