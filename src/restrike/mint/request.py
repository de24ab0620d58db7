"""A mint request: one JSON file, and all that a child process is told. It can be run again by hand.

A file that says anything else, or too little, is refused when it is read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from restrike.cards import registry
from restrike.cards.card import ModelCard
from restrike.cards.checkpoint import Folder, NotHere
from restrike.cards.identity import weights_of
from restrike.endpoints.finding import find
from restrike.endpoints.warm import planned_card
from restrike.errors import Crashed, NotFound, Refused
from restrike.mint.cell.facts import Recipe, Target
from restrike.mint.refusals import NothingDeclared, Subject, WarmForwardFailed
from restrike.store.files import write_file


@dataclass(frozen=True, kw_only=True)
class Slot:
    """Which model: its name, its folder if it is one of this machine, and the identity of its weights.

    `ref` is a card's name or a hub id. `weights` is None while they are not on this machine.
    """

    ref: str
    path: str | None = None
    weights: str | None = None

    def __post_init__(self) -> None:
        if not self.ref.strip():
            raise ValueError("a slot without a ref: a path alone does not say what lies there")

    def card(self) -> ModelCard:
        """The card; raises Unknown, NotFound or Refused, also when the folder is another model's."""
        found = registry.find(self.path or self.ref)
        if self.path and found.name != self.ref:
            raise Refused(f"the folder '{self.path}' is of card '{found.name}', not '{self.ref}'")
        return registry.fitted(found)


@dataclass(frozen=True, kw_only=True)
class EndpointUse:
    """The endpoint whose calls of the slot's card are meant, and what fills its slots: names and folders."""

    ref: str
    slots: dict[str, str]

    def card(self, subject: Subject) -> ModelCard:
        """The card as this endpoint uses it.

        Raises:
            NothingDeclared: the endpoint does not say that it is compiled.
            WarmForwardFailed: a handler of it dies on a payload of its own.
            Unknown, NotFound, Refused: it cannot be found, or a slot cannot be filled so.
        """
        found = find(self.ref, self.slots)
        try:
            card = planned_card(found.endpoint, found.cards)
        except Crashed as error:
            raise WarmForwardFailed(subject, error.message, "mend it; nothing was compiled") from error
        if card is None:
            raise NothingDeclared(subject)
        return card


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What a mint may use; None is no limit. Threads are those of the compiler and of torch."""

    seconds: float | None = None
    memory_bytes: int | None = None
    threads: int = 1

    def __post_init__(self) -> None:
        if any(value is not None and value <= 0 for value in (self.seconds, self.memory_bytes, self.threads)):
            raise ValueError("a budget is above 0")

    def larger(self) -> Budget:
        """What is tried after a shortfall: twice as much, by fewer threads at once."""
        return Budget(
            seconds=self.seconds and 2 * self.seconds,
            memory_bytes=self.memory_bytes and 2 * self.memory_bytes,
            threads=1,
        )


@dataclass(frozen=True, kw_only=True)
class MintRequest:
    """One mint. `shapes` and `targets` are names, none meaning all; `keys_only` stops before compiling.

    `store` is the folder of the cell store; `sign` names the key to sign with, None for the store's own. With
    an `endpoint`, the slot is the one of it that is compiled.
    """

    slot: Slot
    recipe: Recipe
    target: Target
    store: str
    scratch: str
    precision: str | None = None
    shapes: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    sign: str | None = None
    keys_only: bool = False
    endpoint: EndpointUse | None = None
    budget: Budget = Budget()
    attempt: int = 1

    @property
    def subject(self) -> Subject:
        """What a refusal is about."""
        return Subject(card=self.slot.ref, recipe=self.recipe, targets=self.targets)

    def card(self) -> ModelCard:
        """The card that is meant, as its own declaration or an endpoint uses it; raises as both."""
        return self.slot.card() if self.endpoint is None else self.endpoint.card(self.subject)

    @property
    def events(self) -> Path:
        """Where the child writes what happens."""
        return Path(self.scratch) / "events.jsonl"

    @property
    def report(self) -> Path:
        """Where the report lies in the end."""
        return Path(self.scratch) / "report.json"

    @property
    def file(self) -> Path:
        """Where the request itself lies."""
        return Path(self.scratch) / "request.json"

    def again(self, scratch: Path) -> MintRequest:
        """The next attempt, in a folder of its own, with a larger budget."""
        return replace(self, scratch=str(scratch), budget=self.budget.larger(), attempt=self.attempt + 1)

    def write(self) -> Path:
        """Write the file; atomic."""
        write_file(self.file, _ADAPTER.dump_json(self, indent=2))
        return self.file


_ADAPTER = TypeAdapter(MintRequest)


def read_request(path: Path) -> MintRequest:
    """The request in a file; raises NotFound or Refused, naming the file and the field."""
    try:
        return _ADAPTER.validate_json(path.read_bytes(), strict=False, extra="forbid")
    except OSError as error:
        raise NotFound(f"no mint request at '{path}'") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise Refused(f"'{path}' is no mint request: {place}: {first['msg']}") from error


def slot_of(card: ModelCard) -> Slot:
    """The slot of a card that was found: what finds it again, and its weights if they are here."""
    try:
        weights: str | None = weights_of(card)
    except NotHere:
        weights = None
    if isinstance(card.location, Folder):
        return Slot(ref=card.name, path=str(card.location.path.resolve()), weights=weights)
    return Slot(ref=card.address, weights=weights)
