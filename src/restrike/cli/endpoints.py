"""`restrike endpoints`: serving code of a user's own, looked at, locked, and run."""

from __future__ import annotations

import json as jsons
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from restrike.cli import verbs
from restrike.cli.workflow_options import MintMissing, UseCells

if TYPE_CHECKING:
    from collections.abc import Mapping

    from restrike.endpoints.discovery import Found
    from restrike.endpoints.finding import Filled
    from restrike.endpoints.serving import Answer
    from restrike.mint.adoption.cells import Cells

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
File = Annotated[str, typer.Argument(metavar="FILE", help="FILE.py, a module, or a registered name.")]
Slots = Annotated[
    list[str], typer.Option("--slot", metavar="NAME=CARD", help="The model in a slot; repeatable.")
]


@dataclass(frozen=True, kw_only=True)
class ListOptions:
    """The options of `restrike endpoints list`."""

    file: Annotated[
        str, typer.Argument(metavar="[FILE]", help="FILE.py or a module; all that is installed if left out.")
    ] = ""
    json: Json = False


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """The options of `restrike endpoints check`."""

    file: File
    slot: Slots = field(default_factory=list)
    json: Json = False


@dataclass(frozen=True, kw_only=True)
class LockOptions:
    """The options of `restrike endpoints lock`."""

    file: File


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of `restrike endpoints run`."""

    endpoint: Annotated[
        str, typer.Argument(metavar="FILE[:NAME]", help="An endpoint: of a file, registered, or a card.")
    ]
    payload: Annotated[str, typer.Option(metavar="JSON|@FILE", help="What the handler is given.")] = "{}"
    handler: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which handler; needed when there are several.")
    ] = None
    slot: Slots = field(default_factory=list)
    seed: Annotated[int | None, typer.Option(help="The seed of the request; drawn if left out.")] = None
    output_dir: Annotated[Path, typer.Option(metavar="FOLDER", help="Where its files go.")] = Path()
    device: Annotated[
        str | None, typer.Option(metavar="NAME", help="cpu, cuda:0, ...; the best one if left out.")
    ] = None
    precision: Annotated[
        str | None,
        typer.Option(metavar="DTYPE", help="float32, bfloat16 or float16; the card's if left out."),
    ] = None
    cells: UseCells = None
    mint: MintMissing = None
    json: Json = False


def register(app: typer.Typer) -> None:
    """Add the verb and its own verbs."""
    group = verbs.group("Look at, lock and run serving code of your own.")
    verbs.add(group, "list", ListOptions, list_endpoints)
    verbs.add(group, "check", CheckOptions, check)
    verbs.add(group, "lock", LockOptions, lock)
    verbs.add(group, "run", RunOptions, run)
    app.add_typer(group, name="endpoints")


def list_endpoints(options: ListOptions) -> None:
    """List the endpoints of a file with their schemas, or the names of all that are installed."""
    if not options.file:
        _list_installed(options)
        return
    from restrike.endpoints.describing import described

    found = {name: described(each) for name, each in _looked_at(options.file).endpoints.items()}
    if options.json:
        typer.echo(jsons.dumps({"endpoints": found}, indent=2))
        return
    from restrike.cli.tables import listed, show

    show(listed({name: _lines(each) for name, each in found.items()}))


def _list_installed(options: ListOptions) -> None:
    from restrike.cards import registry
    from restrike.endpoints.places import installed

    found, cards = installed(), registry.names()
    if options.json:
        typer.echo(jsons.dumps({"installed": found, "cards": list(cards)}, indent=2))
        return
    from restrike.cli.tables import Rows, show

    rows = Rows()
    for name, value in sorted(found.items()):
        rows.add(name, value)
    for name in cards:
        rows.add(name, "card")
    show(rows.table)


def _lines(found: Mapping[str, Any]) -> list[str]:
    """What a person reads of an endpoint."""
    lines = [found["summary"] or "(no description)"]
    for name, schemas in found["handlers"].items():
        fields = ", ".join(schemas["request"].get("properties", {}))
        lines.append(f"{name}({fields})")
    for name, slot in found["slots"].items():
        lines.append(
            f"slot {name}: {', '.join(slot['tasks']) or 'any task'}, {slot['default'] or 'to be filled'}"
        )
    lines.append(f"needs {_needs(found['resources'])}")
    compiled = found["compile"]
    lines.append(f"compiles {len(compiled['rows'])} payloads" if compiled else "is not compiled")
    return lines


def _needs(resources: Mapping[str, int]) -> str:
    from restrike.cli.tables import size_of

    asked = {
        name.removesuffix("_bytes").replace("_", " "): size_of(value) if name.endswith("_bytes") else value
        for name, value in resources.items()
        if value
    }
    return ", ".join(f"{name} {value}" for name, value in asked.items())


def check(options: CheckOptions) -> None:
    """Check the endpoints of a file: declarations, lock, and the slots that are given. Loads no weights."""
    from restrike.endpoints.lock import check_lock, lock_path
    from restrike.endpoints.warm import payload_rows

    found = _looked_at(options.file)
    rows = {name: len(payload_rows(endpoint)) for name, endpoint in found.endpoints.items()}
    is_locked = lock_path(found.place.file).is_file()
    if is_locked:
        check_lock(found)
    if options.slot:
        _check_slots(found, slots_of(options.slot))
    if options.json:
        typer.echo(jsons.dumps({"endpoints": rows, "locked": is_locked}, indent=2))
        return
    for name, count in rows.items():
        compiled = f", compiles {count} payloads" if count else ""
        typer.echo(f"{name}: whole{compiled}{', as locked' if is_locked else ''}")


def _check_slots(found: Found, slots: Mapping[str, str]) -> None:
    """Whether what is given fills each slot, and what is to be compiled is a target of its card."""
    from restrike.endpoints.slots import fill
    from restrike.mint.targets import resolve_targets

    endpoints = found.endpoints.values() if found.place.name is None else [found.meant()]
    for endpoint in endpoints:
        cards = fill(
            endpoint, {name: card for name, card in slots.items() if _is_meant(found, endpoint, name)}
        )
        if endpoint.compiled is not None and endpoint.compiled_slot is not None:
            resolve_targets(cards[endpoint.compiled_slot], "aot", endpoint.compiled.targets)


def _is_meant(found: Found, endpoint: Any, slot: str) -> bool:
    """A slot that some endpoint of the file has is no mistake; one that none has is told by each."""
    known = {name for each in found.endpoints.values() for name in each.slots}
    return slot in endpoint.slots or slot not in known


def lock(options: LockOptions) -> None:
    """Write down what the endpoints of a file are now, so that a change of them is noticed."""
    from restrike.endpoints.lock import write_lock

    typer.echo(str(write_lock(_looked_at(options.file))))


def run(options: RunOptions) -> None:
    """Serve one payload, in this process, and print what came of it."""
    from restrike.cli.background import wait_for_mints
    from restrike.endpoints import resources
    from restrike.endpoints.finding import find
    from restrike.endpoints.payloads import payload_type
    from restrike.endpoints.serving import handler_of
    from restrike.errors import NotFound
    from restrike.mint.adoption.choice import cells_for

    found = find(options.endpoint, slots_of(options.slot))
    payload = payload_type(handler_of(found.endpoint, options.handler)).read_json(text_of(options.payload))
    resources.require(found.endpoint)
    if not options.output_dir.is_dir():
        raise NotFound(f"no folder at '{options.output_dir}'")
    cells = cells_for(options.cells, options.mint)
    answer = _served(found if cells is None else found.as_compiled(), payload, options, cells)
    _tell(answer, options)
    if cells is not None:
        wait_for_mints(cells)


def _served(found: Filled, payload: Any, options: RunOptions, cells: Cells | None) -> Answer:
    """The payload's answer; the first Ctrl-C cancels it at its next step."""
    from restrike.cli.interrupts import on_interrupt

    # The first import of torch; all that needs none has been refused by now.
    from restrike.endpoints.serving import Asked, Serving
    from restrike.engine.engine import Engine
    from restrike.engine.requests import Cancellation

    cancellation = Cancellation()
    asked = Asked(
        handler=options.handler,
        seed=options.seed,
        folder=options.output_dir,
        cancellation=cancellation,
        watch=_show,
    )
    with (
        on_interrupt(cancellation.cancel),
        Engine(device=options.device, precision=options.precision, cells=cells) as engine,
        Serving(found.endpoint, found.cards, engine) as serving,
    ):
        return serving.call(payload, asked)


def _show(event: object) -> None:
    from restrike.endpoints.context import Progressed

    if isinstance(event, Progressed):
        typer.echo(f"{event.fraction:.0%} {event.note}".rstrip(), err=True)


def _tell(answer: Answer, options: RunOptions) -> None:
    for notice in answer.notices:
        typer.echo(notice, err=True)
    if options.json:
        typer.echo(jsons.dumps(asdict(answer), indent=2))
        return
    for file in answer.files:
        typer.echo(file.path)
    if answer.value is not None:
        typer.echo(jsons.dumps(answer.value))


def slots_of(texts: list[str]) -> dict[str, str]:
    """`NAME=CARD` each; raises Refused."""
    from restrike.errors import Refused

    found: dict[str, str] = {}
    for text in texts:
        name, equals, card = text.partition("=")
        if not equals or not name or not card:
            raise Refused(f"slot '{text}' is not NAME=CARD, such as pipeline=shapes")
        if name in found:
            raise Refused(f"slot '{name}' is given twice")
        found[name] = card
    return found


def _looked_at(text: str) -> Found:
    from restrike.endpoints.discovery import look_at
    from restrike.endpoints.places import find_place
    from restrike.errors import NotFound

    place = find_place(text)
    if place is None:
        raise NotFound(f"'{text}' is neither a Python file nor a module, nor registered as an endpoint")
    return look_at(place)


def text_of(payload: str) -> str:
    """A payload as it is written, or as `@FILE` holds it; raises NotFound."""
    from restrike.errors import NotFound

    if not payload.startswith("@"):
        return payload
    try:
        return Path(payload[1:]).read_text(encoding="utf-8")
    except OSError as error:
        raise NotFound(f"no payload file at '{payload[1:]}'") from error
