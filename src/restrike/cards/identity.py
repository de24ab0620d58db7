"""The identity of weights: what is in every key that they can influence, and on every output.

It is made of content alone: moving or renaming a checkpoint changes nothing, editing one byte does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from restrike.cards.card import Component, ModelCard
from restrike.cards.checkpoint import Checkpoint, NotHere
from restrike.errors import Refused


@dataclass(frozen=True, kw_only=True)
class AdapterIdentity:
    """What of an adapter decides a result: its file's digest, its strength, and where it was sent."""

    digest: str
    strength: float
    component: str | None = None


@dataclass(frozen=True, kw_only=True)
class WeightIdentity:
    """One component's weights as they are now.

    `base` is the digest of its files, or of the tensors that it was last synced to; `version` is that of the
    sync, 0 for weights as they were loaded; `adapters` are those that changed it, in their order.
    """

    component: str
    base: str
    version: int = 0
    adapters: tuple[AdapterIdentity, ...] = ()


def identity_of(component: Component, checkpoint: Checkpoint) -> WeightIdentity:
    """Digest the files of one component of a checkpoint."""
    from restrike.keys import digest, file_digest

    files = {
        path.relative_to(checkpoint.root).as_posix(): str(file_digest(path))
        for path in checkpoint.files(component.files)
    }
    return WeightIdentity(component=component.name, base=str(digest("weights", "1", files)))


def combined(parts: Iterable[WeightIdentity]) -> str:
    """The identity of several components together: what is written into every file that they made."""
    from restrike.keys import digest

    return str(digest("card-weights", "1", {part.component: [part.base, part.version] for part in parts}))


def adapted(weights: str, adapters: Iterable[AdapterIdentity]) -> str:
    """The identity of a card's weights under adapters; the order is part of it. Without any it is itself."""
    from restrike.keys import digest

    stack = [[part.digest, part.strength, part.component] for part in adapters]
    return str(digest("adapted-weights", "1", {"weights": weights, "adapters": stack})) if stack else weights


def identities_of(
    components: Iterable[Component], checkpoint: Checkpoint
) -> dict[str, WeightIdentity | None]:
    """The identity of each component by name; None for one that the checkpoint does not have."""
    return {
        part.name: identity_of(part, checkpoint) if checkpoint.files(part.files) else None
        for part in components
    }


def files_of(card: ModelCard) -> tuple[str, ...]:
    """The glob patterns of all files that decide what the card makes."""
    return tuple(dict.fromkeys(pattern for part in read_by_loops(card) for pattern in part.files))


def read_by_loops(card: ModelCard) -> tuple[Component, ...]:
    """The components that any loop of the card reads, in the order of the loops."""
    names = dict.fromkeys(name for loop in card.loops for name in loop.components)
    return tuple(card.component(name) for name in names)


def as_loaded(part: WeightIdentity) -> WeightIdentity:
    """A component's weights as its files have them."""
    return part


@dataclass(frozen=True, kw_only=True)
class WeightStamp:
    """The identity of all weights of a card, and the versions of those that were synced, by component."""

    weights: str
    versions: Mapping[str, int]


def weights_of(card: ModelCard) -> str:
    """The identity of all weights that a card can read, as its files have them; see `stamp_of`."""
    return stamp_of(card).weights


def stamp_of(card: ModelCard, now: Callable[[WeightIdentity], WeightIdentity] = as_loaded) -> WeightStamp:
    """The weights that a card can read; for a card of one loop those of its outputs.

    `now` says what became of a component where it is loaded. Loads nothing and fetches nothing.

    Raises:
        NotHere: the weights were not brought to this machine yet, or not all of them.
        NotFound: the checkpoint's folder is gone.
        Refused: the card has no weights yet.
    """
    if card.location is None:
        raise Refused(f"card '{card.name}' needs weights: name a checkpoint folder or a hub id instead")
    components = read_by_loops(card)
    checkpoint = card.location.present(files_of(card))
    found = identities_of(components, checkpoint)
    absent = [part.name for part in components if found[part.name] is None and not part.optional]
    if absent:
        raise NotHere(f"checkpoint '{checkpoint.name}' lacks {', '.join(absent)} on this machine")
    parts = [now(identity) for identity in found.values() if identity is not None]
    versions = {part.component: part.version for part in parts if part.version}
    return WeightStamp(weights=combined(parts), versions=versions)
