"""`restrike mint CARD`: compile what a card declares, once, in a process of its own, and keep it as cells."""

from __future__ import annotations

import json as jsons
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from restrike.cli import verbs

if TYPE_CHECKING:
    from restrike.cards.card import ModelCard
    from restrike.mint.cell.facts import Recipe
    from restrike.mint.parent import Minted
    from restrike.mint.report import MintReport
    from restrike.mint.request import EndpointUse, MintRequest

_HOW = {"published": "kept", "already": "was kept already"}


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of `restrike mint`."""

    card: Annotated[
        str,
        typer.Argument(
            metavar="[CARD]", help="A card, a checkpoint folder, a hub id, or an endpoint, FILE.py:NAME."
        ),
    ] = ""
    slot: Annotated[
        list[str],
        typer.Option("--slot", metavar="NAME=CARD", help="The model in an endpoint's slot; repeatable."),
    ] = field(default_factory=list)
    recipe: Annotated[
        str, typer.Option(metavar="aot|dynamo", help="A portable package, or torch.compile's own caches.")
    ] = "aot"
    shapes: Annotated[
        list[str], typer.Option(metavar="NAME|WxH[xF]", help="Only this shape class or size; repeatable.")
    ] = field(default_factory=list)
    only: Annotated[
        list[str], typer.Option(metavar="COMPONENT", help="Only this compile target; repeatable.")
    ] = field(default_factory=list)
    target: Annotated[str, typer.Option(metavar="cpu|cuda:sm_90", help="What it will run on.")] = "cpu"
    precision: Annotated[
        str | None,
        typer.Option(metavar="DTYPE", help="float32, bfloat16 or float16; the card's if left out."),
    ] = None
    budget_seconds: Annotated[
        float | None, typer.Option(metavar="S", help="End it after so long; no limit if left out.")
    ] = None
    budget_memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="What it may hold, such as 8G; no limit if left out.")
    ] = None
    sign: Annotated[
        str | None, typer.Option(metavar="KEY", help="The key to sign with; the store's own if left out.")
    ] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the keys, and compile nothing.")] = False
    rig: Annotated[
        bool, typer.Option("--rig", help="Try the whole cycle on the smallest card, with both recipes.")
    ] = False
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False


def register(app: typer.Typer) -> None:
    """Add the verb."""
    verbs.add(app, "mint", Options, mint)


def mint(options: Options) -> None:
    """Compile a card's denoisers once, prove them, and keep them as signed cells."""
    if options.rig:
        _run_rig(options)
        return
    from restrike.cli.mint_screen import screen
    from restrike.mint.parent import mint as run
    from restrike.mint.scratch import tidy

    request = _request(options)
    with screen() as watcher:
        minted = run(request, watcher)
    tidy(Path(request.scratch))
    _settle(minted, options, Path(request.scratch))


def _request(options: Options) -> MintRequest:
    from restrike.cli.cells import writable_cells
    from restrike.errors import Refused
    from restrike.mint.cell.host import parse_target
    from restrike.mint.request import Budget, MintRequest, slot_of
    from restrike.mint.scratch import new_scratch
    from restrike.settings import size_bytes

    if not options.card:
        raise Refused("no card is named; restrike cards lists those that are installed")
    recipe = _recipe(options)
    memory = options.budget_memory
    if options.budget_seconds is not None and options.budget_seconds <= 0:
        raise Refused(f"--budget-seconds {options.budget_seconds} is not above 0")
    meant, root = _meant(options), writable_cells().root
    return MintRequest(
        slot=slot_of(meant.card),
        endpoint=meant.endpoint,
        recipe=recipe,
        target=parse_target(options.target),
        store=str(root),
        scratch=str(new_scratch(root / "mints")),
        precision=options.precision,
        shapes=tuple(name for given in options.shapes for name in given.split(",")),
        targets=meant.targets,
        sign=options.sign,
        keys_only=options.dry_run,
        budget=Budget(
            seconds=options.budget_seconds,
            memory_bytes=None if memory is None else size_bytes("--budget-memory", memory),
            threads=_threads(),
        ),
    )


@dataclass(frozen=True, kw_only=True)
class _Meant:
    """The card to compile, its targets (none: all), and the endpoint whose calls are meant, if one is."""

    card: ModelCard
    targets: tuple[str, ...]
    endpoint: EndpointUse | None = None


def _meant(options: Options) -> _Meant:
    """What the argument and `--slot` mean; raises what `restrike.endpoints` raises of them."""
    from restrike.cards import registry
    from restrike.cli.endpoints import slots_of
    from restrike.endpoints.discovery import look_at
    from restrike.endpoints.places import find_place
    from restrike.endpoints.slots import fill
    from restrike.errors import Refused
    from restrike.mint.refusals import NothingDeclared, Subject
    from restrike.mint.request import EndpointUse

    place, slots = find_place(options.card), slots_of(options.slot)
    if place is None:
        if slots:
            raise Refused(f"'{options.card}' is no endpoint and has no slots; leave --slot out")
        return _Meant(card=registry.find(options.card), targets=tuple(options.only))
    endpoint = look_at(place).meant()
    cards = fill(endpoint, slots)
    if endpoint.compiled is None or endpoint.compiled_slot is None:
        raise NothingDeclared(Subject(card=endpoint.name, recipe=_recipe(options)))
    # The child works elsewhere: folders and files are found from there by their whole paths.
    whole = {name: str(Path(text).resolve()) if Path(text).is_dir() else text for name, text in slots.items()}
    ref = f"{place.file}:{endpoint.name}" if options.card.partition(":")[0].endswith(".py") else options.card
    return _Meant(
        card=cards[endpoint.compiled_slot],
        targets=tuple(options.only) or endpoint.compiled.targets,
        endpoint=EndpointUse(ref=ref, slots=whole),
    )


def _recipe(options: Options) -> Recipe:
    from restrike.errors import Unknown

    if options.recipe not in ("aot", "dynamo"):
        raise Unknown("recipe", options.recipe, ("aot", "dynamo"))
    return options.recipe


def _threads() -> int:
    """At most half of the processor's cores, and at most four: others work here too."""
    import os

    return max(1, min(4, (os.cpu_count() or 1) // 2))


def _settle(minted: Minted, options: Options, scratch: Path) -> None:
    """Tell what came of it; the program leaves with the mint's own exit code."""
    from restrike.cli.failures import tell
    from restrike.mint.outcome import Outcome, error_of

    report = minted.report
    if options.json:
        typer.echo(jsons.dumps(_described(minted), indent=2))
    else:
        tell_report(report)
    if report.ending.outcome is Outcome.OK:
        return
    died = f" (in phase {report.phase}; the report lies in {scratch})" if report.phase else ""
    tell(error_of(report.ending.outcome, report.ending.message + died))
    raise typer.Exit(report.ending.outcome.exit_code)


def tell_report(report: MintReport) -> None:
    """The cells on stdout; what is missing, and what becomes of them, on stderr."""
    for landed in report.landed:
        typer.echo(f"{landed.key[:16]}  {landed.entry}  {_HOW[landed.how]}")
    if not report.landed:
        for entry, key in report.keys.items():
            typer.echo(f"{key}  {entry}")
    for failed in report.failed:
        typer.echo(f"failed: {failed.entry} in {failed.phase}: {failed.message}", err=True)
    for entry in report.remaining:
        typer.echo(f"remaining: {entry}", err=True)
    if report.landed:
        count = "1 cell" if len(report.landed) == 1 else f"{len(report.landed)} cells"
        typer.echo(
            f"{count} of {report.card} in {report.seconds:.0f} s; used from now on where they fit, "
            f"on target {report.target}, unless --cells off",
            err=True,
        )


def _described(minted: Minted) -> dict[str, Any]:
    """A report as a program reads it."""
    return {**asdict(minted.report), "attempts": minted.attempts}


def _run_rig(options: Options) -> None:
    from restrike.cli.mint_screen import screen
    from restrike.mint.rig import run_rig

    with screen() as shown:
        trials = run_rig(shown.named)
    if options.json:
        typer.echo(jsons.dumps({"trials": [asdict(trial) for trial in trials]}, indent=2))
        return
    for trial in trials:
        typer.echo(
            f"{trial.recipe}: minted in {trial.mint_s:.1f} s, adopted in another process in "
            f"{trial.adopt_s:.1f} s, {trial.times_faster:.2f} times as fast as eager, "
            f"{trial.max_difference:.1g} from it"
        )
