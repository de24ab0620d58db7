"""Finds the cells of a card by their keys, here and in the second tier: by signposts, or by tracing calls.

Loads no code of a cell. What is not taken is counted by its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from restrike.cards.compile import Compile, CompileTarget
from restrike.endpoints.warm import WarmRow
from restrike.engine.resident import ResidentCard
from restrike.errors import RestrikeError
from restrike.keys import Digest, Key
from restrike.mint.adoption.refusal import AdoptionRefusal
from restrike.mint.adoption.signposts import Signposts, call_key
from restrike.mint.cell.facts import Recipe
from restrike.mint.cell.host import Host
from restrike.mint.cell.refusal import CellRefused
from restrike.mint.cell.verify import verify_host
from restrike.mint.recipes.options import Value, options_of
from restrike.mint.refusals import NotExportable, Subject
from restrike.mint.store.moving import pull
from restrike.mint.store.store import CellStore
from restrike.mint.store.tier import Tier
from restrike.mint.warm import Observed

RECIPES: tuple[Recipe, ...] = ("aot", "dynamo")
"""In the order of preference."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the cells of one card are looked for, and for which machine."""

    store: CellStore
    tier: Tier | None
    host: Host


@dataclass(kw_only=True)
class Wanted:
    """A declared call, made by one recipe: its signpost, and the keys of its cells once they are known."""

    target: CompileTarget
    row: WarmRow
    recipe: Recipe
    options: dict[str, Value]
    sign: Key | None
    keys: tuple[Digest, ...] | None

    @property
    def label(self) -> str:
        """How a person names it."""
        return f"{self.target.component} {self.row.shape.name}"


@dataclass(kw_only=True)
class Discovery:
    """What was found: `rejected` counts the cells of the store that are none of the card's, by reason."""

    wanted: list[Wanted]
    rejected: Counter[str] = field(default_factory=Counter)
    loadable: dict[Digest, Recipe] = field(default_factory=dict)
    """The store's cells that this machine could load, whatever they are of."""

    def unknown(self) -> list[Wanted]:
        """The calls whose keys are not known yet."""
        return [each for each in self.wanted if each.keys is None]

    def unclaimed(self) -> list[Digest]:
        """The cells here that could be of a call whose keys are not known."""
        known = {key for each in self.wanted for key in each.keys or ()}
        recipes = {each.recipe for each in self.unknown()}
        return [key for key, recipe in self.loadable.items() if recipe in recipes and key not in known]


def discover(
    resident: ResidentCard,
    declared: Compile,
    targets: Sequence[CompileTarget],
    rows: Sequence[WarmRow],
    place: Place,
) -> Discovery:
    """Every declared call with what its signpost says, and why other cells of the store are not taken."""
    signs = Signposts(place.store.root)
    found = Discovery(wanted=list(_wanted(resident, declared, targets, rows, place, signs)))
    for cell in place.store.cells():
        reason = None if cell.refusal is None else cell.refusal.value
        if cell.header is not None:
            try:
                verify_host(cell.header, place.host)
            except CellRefused as refused:
                reason = refused.reason.value
        if reason is not None:
            found.rejected[reason] += 1
        elif cell.header is not None:
            found.loadable[cell.key] = cell.header.facts.stack.recipe
    return found


def _wanted(
    resident: ResidentCard,
    declared: Compile,
    targets: Sequence[CompileTarget],
    rows: Sequence[WarmRow],
    place: Place,
    signs: Signposts,
) -> Iterator[Wanted]:
    for recipe in RECIPES:
        subject = Subject(card=resident.card.name, recipe=recipe)
        options = options_of(recipe, place.host.target, declared.options, subject)
        stack = place.host.stack(recipe)
        for row in rows:
            for target in targets:
                sign = call_key(
                    resident,
                    target.component,
                    row.shape,
                    stack=stack,
                    target=place.host.target,
                    options=options,
                )
                keys = signs.read(sign)
                yield Wanted(target=target, row=row, recipe=recipe, options=options, sign=sign, keys=keys)


def find_by_tracing(
    wanted: Sequence[Wanted], seen: Sequence[Observed], resident: ResidentCard, place: Place
) -> None:
    """Make the keys of these calls, all of one row, from what was observed of it; put up their signposts."""
    from restrike.mint.graph import graph_digest, trace
    from restrike.mint.landing import key_of

    signs = Signposts(place.store.root)
    graphs: dict[str, list[tuple[str, Observed]]] = {}
    for each in seen:
        subject = Subject(card=resident.card.name, recipe="aot", targets=(each.target.component,))
        try:
            program = trace(resident.component(each.target.component), each, subject)
        except NotExportable:
            continue
        graphs.setdefault(each.target.component, []).append((graph_digest(program), each))
    for call in wanted:
        call.keys = tuple(
            key_of(
                graph, each.ingress, recipe=call.recipe, target=place.host.target, options=call.options
            ).digest
            for graph, each in graphs.get(call.target.component, ())
        )
        signs.write(call.sign, call.keys)


def bring(key: Digest, place: Place) -> AdoptionRefusal | str | None:
    """Why a cell of a key is not here and cannot be fetched; None when it is here."""
    if place.store.has(key):
        return None
    if place.tier is None:
        return AdoptionRefusal.NO_CELL
    if any(aside.key == key.hex for aside in place.store.quarantined()):
        return AdoptionRefusal.SET_ASIDE
    try:
        if not place.tier.has(key):
            return AdoptionRefusal.NO_CELL
        refused = pull(place.store, place.tier, [place.host], [key]).refused
    except RestrikeError:
        return AdoptionRefusal.UNREACHABLE
    return next(iter(refused), None)
