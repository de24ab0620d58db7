"""`restrike generate PROMPT`: make pictures and write them."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from restrike.cli import verbs
from restrike.cli.background import wait_for_mints
from restrike.cli.interrupts import on_interrupt
from restrike.cli.options import Options

if TYPE_CHECKING:
    from restrike.cli.job import Job
    from restrike.cli.screen import Screen
    from restrike.engine.engine import Engine
    from restrike.engine.result import Generation
    from restrike.mint.adoption.cells import Cells


def register(app: typer.Typer) -> None:
    """Add the verb."""
    verbs.add(app, "generate", Options, generate)


def generate(options: Options) -> None:
    """Make an image or a video from a prompt."""
    from restrike.cli.failures import Unfinished
    from restrike.cli.job import prepare
    from restrike.cli.screen import screen_for
    from restrike.errors import typed

    job = prepare(options)
    files: list[dict[str, Any]] = []
    with screen_for(job, options.preview) as screen:
        try:
            cells = _cells(options)
            engine = _engine(options, cells)
            notices = _checked_again(job, engine, screen, card_is_given=options.card is not None)
            generation = _run(job, engine, screen, files, announces=not options.json)
        except (Exception, KeyboardInterrupt) as error:
            raise Unfinished(typed(error), {"files": files}) from error
    if options.json:
        typer.echo(json.dumps(_result(generation, files, notices), indent=2))
    if cells is not None:
        wait_for_mints(cells)


def _cells(options: Options) -> Cells | None:
    from restrike.mint.adoption.choice import cells_for

    return cells_for(options.cells, options.mint)


def _engine(options: Options, cells: Cells | None) -> Engine:
    from restrike.engine.capture.modes import checked_mode

    capture = checked_mode(options.capture or "auto")
    # The first import of torch; all that needs none has been refused by now.
    from restrike.engine.engine import Engine
    from restrike.engine.extensions import extension

    return Engine(
        device=options.device,
        precision=options.precision,
        extensions=tuple(extension(name) for name in options.extension),
        trust_remote_code=options.trust_remote_code,
        capture=capture,
        batch_limit=1 if options.batch is None else options.batch,
        cells=cells,
    )


def _checked_again(job: Job, engine: Engine, screen: Screen, *, card_is_given: bool) -> tuple[str, ...]:
    """With --from: whether it can be the same again, and what may differ."""
    if job.source is None:
        return ()
    from restrike.cli.again import differences
    from restrike.engine.events import Noticed

    found = differences(job.source, engine.load(job.card), job.loop, card_is_given=card_is_given)
    for message in found:
        screen.show(Noticed(message=message))
    return found


def _run(
    job: Job, engine: Engine, screen: Screen, files: list[dict[str, Any]], *, announces: bool
) -> Generation:
    """Advance the engine, show its events, write each picture as soon as it is finished."""
    from restrike.cli.writing import write_picture
    from restrike.engine.events import Failed, PictureFinished, Stopped, Succeeded
    from restrike.engine.requests import Cancellation, StreamOptions

    cancellation = Cancellation()
    options = StreamOptions(preview_every=screen.preview_every, cancellation=cancellation)

    def stop() -> None:
        cancellation.cancel()
        screen.stopping()

    with on_interrupt(stop), closing(engine.stream(job.card, job.request, options)) as events:
        for event in events:
            screen.show(event)
            match event:
                case PictureFinished():
                    files.append(write_picture(job, event.picture))
                    if announces:
                        with screen.aside():
                            typer.echo(files[-1]["path"])
                case Failed() | Stopped():
                    raise event.error
                case Succeeded():
                    return event.generation
                case _:
                    pass
    raise RuntimeError("the stream ended without a terminal event")


def _result(generation: Generation, files: list[dict[str, Any]], notices: tuple[str, ...]) -> dict[str, Any]:
    """What --json prints."""
    made = generation.picture.provenance
    return {
        "files": files,
        "card": made.card,
        "weights": made.weights,
        "seed": generation.seed,
        "arguments": dict(made.arguments),
        "versions": dict(made.versions),
        "seconds": round(generation.seconds, 3),
        "capture": asdict(generation.capture),
        "compiled": {**asdict(generation.compiled), "executed": generation.compiled.executed},
        "notices": [*notices, *generation.notices],
    }
