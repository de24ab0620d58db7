"""`restrike cards`: which models there are, and all about one. Imports no torch, loads no weights."""

from __future__ import annotations

import json as jsons
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from restrike.cards import registry
from restrike.cli import verbs
from restrike.cli.help import Group

if TYPE_CHECKING:
    from restrike.cards.card import Component, ModelCard
    from restrike.cards.checkpoint import Checkpoint


@dataclass(frozen=True, kw_only=True)
class ListOptions:
    """The options of `restrike cards`."""

    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False


@dataclass(frozen=True, kw_only=True)
class ShowOptions:
    """The options of `restrike cards show`."""

    name: Annotated[
        str, typer.Argument(metavar="NAME|FOLDER|HUB_ID", help="A card, a checkpoint folder or a hub id.")
    ]
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False


def register(app: typer.Typer) -> None:
    """Add the verb and its own verb `show`."""
    group = typer.Typer(
        cls=Group, help="List the models, or show all about one.", invoke_without_command=True
    )

    @group.callback()
    def cards(
        context: typer.Context,
        json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    ) -> None:
        """List the models, or show all about one."""
        if context.invoked_subcommand is None:
            listing(ListOptions(json=json))

    verbs.add(group, "show", ShowOptions, show_card)
    app.add_typer(group, name="cards")


def listing(options: ListOptions) -> None:
    """List all installed cards; one that cannot be read is listed with its fault."""
    found = [_summary(name) for name in registry.names()]
    if options.json:
        typer.echo(jsons.dumps({"cards": found}, indent=2))
        return
    from restrike.cli.tables import listed, show

    show(listed({entry["name"]: _lines(entry) for entry in found}))


def _lines(entry: dict[str, Any]) -> tuple[str, ...]:
    if "fault" in entry:
        return (f"cannot be used: {entry['fault']}",)
    makes = ", ".join(entry["tasks"])
    return (
        entry["description"],
        f"{makes}; {entry['sizes']}",
        f"weights: {entry['weights']}",
        f"licence: {entry['license']}",
        *(
            (f'try: restrike generate "{entry["example"]}" --card {entry["name"]}',)
            if entry["example"]
            else ()
        ),
    )


def _summary(name: str) -> dict[str, Any]:
    from restrike.errors import RestrikeError

    try:
        card = registry.card(name)
        return {
            "name": name,
            "description": card.description,
            "tasks": [str(task) for task in card.tasks()],
            "sizes": _sizes(card),
            "weights": _weights(card),
            "license": card.license,
            "example": card.example,
        }
    except (RestrikeError, ImportError) as error:
        return {"name": name, "fault": str(error)}


def _sizes(card: ModelCard) -> str:
    width, height, frames = card.geometry.width, card.geometry.height, card.geometry.frames
    if width.minimum == width.maximum and height.minimum == height.maximum:
        size = f"{width}x{height}"
    else:
        size = f"sides of {width}" if width == height else f"width {width}, height {height}"
    return size if frames.maximum == 1 else f"{size}; {frames} frames"


def _weights(card: ModelCard) -> str:
    from restrike.cards.checkpoint import HubRepository
    from restrike.cli.tables import size_of

    if card.location is None:
        return "yours, with --card FOLDER or --card HUB_ID"
    if isinstance(card.location, HubRepository):
        return f"from the hub, {card.location}"
    checkpoint = card.location.resolve(())
    files = checkpoint.files(tuple(pattern for part in card.components for pattern in part.files))
    return f"here, {size_of(sum(file.stat().st_size for file in files))}" if files else "missing; reinstall"


def show_card(options: ShowOptions) -> None:
    """Show all about one card: components, loops, defaults, limits, recipe, weights."""
    card = registry.find(options.name)
    components = _components(card)
    found = {**_summary_of(card), "loops": _loops(card, components), "components": components}
    if options.json:
        typer.echo(jsons.dumps(found, indent=2))
    else:
        from restrike.cli.card_table import print_card

        print_card(found)


def _summary_of(card: ModelCard) -> dict[str, Any]:
    from restrike.cards.lineage import lineage

    return {
        "name": card.name,
        "description": card.description,
        "license": card.license,
        "architecture": card.architecture,
        "weights": _weights(card),
        "precisions": list(card.precisions),
        "tasks": [str(task) for task in card.tasks()],
        "geometry": {axis: str(getattr(card.geometry, axis)) for axis in ("width", "height", "frames")},
        "defaults": asdict(card.defaults),
        "recipe": asdict(card.recipe),
        "lineage": [asdict(ancestor) for ancestor in lineage(card)],
        "pipelines": list(card.pipelines),
    }


def _components(card: ModelCard) -> list[dict[str, Any]]:
    """Each component, with what of it is here; a card without a location has nothing to hash yet."""
    patterns = tuple(pattern for part in card.components for pattern in part.files)
    checkpoint = card.location.resolve(patterns) if card.location else None
    return [
        {"name": part.name, "files": list(part.files), "optional": part.optional, **_here(part, checkpoint)}
        for part in card.components
    ]


def _loops(card: ModelCard, components: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each loop, with the identity of all weights that it reads, as it is written into files."""
    identities = {part["name"]: part["identity"] for part in components if part["identity"]}
    return [
        {
            "name": loop.name,
            "tasks": [str(task) for task in loop.tasks],
            "components": list(loop.components),
            "solvers": list(loop.solvers),
            "guidance": list(loop.guidance),
            "weights": _combined({n: identities[n] for n in loop.components if n in identities}),
        }
        for loop in card.loops
    ]


def _combined(identities: dict[str, str]) -> str | None:
    from restrike.cards.identity import WeightIdentity, combined

    parts = (WeightIdentity(component=name, base=base) for name, base in identities.items())
    return combined(parts) if identities else None


def _here(part: Component, checkpoint: Checkpoint | None) -> dict[str, Any]:
    from restrike.cards.identity import identity_of

    files = checkpoint.files(part.files) if checkpoint else ()
    if checkpoint is None or not files:
        return {"size_bytes": None, "identity": None}
    size_bytes = sum(file.stat().st_size for file in files)
    return {"size_bytes": size_bytes, "identity": identity_of(part, checkpoint).base}
