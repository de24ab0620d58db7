"""The identity of weights: what is in every key that they can influence, and on every output.

It is made of content alone: moving or renaming a checkpoint changes nothing, editing one byte does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from restrike.cards.card import Component, ModelCard
from restrike.cards.checkpoint import Checkpoint, NotHere
from restrike.errors import Refused


@dataclass(frozen=True, kw_only=True)
class WeightIdentity:
    """One component's weights: the digest of its files, and how often they were synced since."""

    component: str
    base: str
    version: int = 0


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


def weights_of(card: ModelCard) -> str:
    """The identity of all weights that a card can read; for a card of one loop that of its outputs.

    Loads nothing and fetches nothing.

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
    return combined(identity for identity in found.values() if identity is not None)
