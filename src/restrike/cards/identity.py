"""The identity of weights: what is in every key that they can influence, and on every output.

It is made of content alone: moving or renaming a checkpoint changes nothing, editing one byte does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from restrike.cards.card import Component
from restrike.cards.checkpoint import Checkpoint


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
