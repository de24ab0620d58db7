"""A checkpoint as it was when a step was keyed: no newer revision, and no edited file, takes its place."""

from __future__ import annotations

from dataclasses import dataclass, replace

from restrike.cards.card import ModelCard
from restrike.cards.checkpoint import Checkpoint, Packaged
from restrike.cards.identity import files_of


@dataclass(frozen=True)
class Pinned:
    """The location of weights with a known identity; with another one it is another location."""

    checkpoint: Checkpoint
    weights: str

    def resolve(self, files: tuple[str, ...]) -> Checkpoint:
        """The checkpoint."""
        return self.checkpoint

    def present(self, files: tuple[str, ...]) -> Checkpoint:
        """The checkpoint."""
        return self.checkpoint

    def missing_bytes(self, files: tuple[str, ...]) -> int:
        """Nothing: it is all here."""
        return 0

    def __str__(self) -> str:
        return self.checkpoint.name


def pinned(card: ModelCard, weights: str) -> ModelCard:
    """The card at its location as it is now, so that an engine which holds older weights loads these anew."""
    if card.location is None or isinstance(card.location, Packaged):
        return card
    return replace(card, location=Pinned(card.location.present(files_of(card)), weights))
