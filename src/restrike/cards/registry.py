"""Finds the card for a name, a checkpoint folder or a hub id.

Cards are entry points of the group `restrike.cards`, imported one at a time when asked for. A checkpoint's
architecture is read from its `model_index.json` alone, before any weights are fetched.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from restrike.cards.card import ModelCard
from restrike.cards.checkpoint import Folder, HubRepository
from restrike.errors import NotFound, Refused, Unknown

GROUP = "restrike.cards"
INDEX = "model_index.json"
FALLBACK = "pipeline"
DEFAULT = "shapes"
"""The card of a request that names none."""


@cache
def _registered() -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        other = found.setdefault(point.name, point)
        if other.value != point.value:
            owners = " and ".join(sorted({other.value, point.value}))
            raise Refused(f"two packages register a card '{point.name}': {owners}; uninstall one")
    return found


def names() -> tuple[str, ...]:
    """The names of all installed cards, without importing any."""
    return tuple(sorted(_registered()))


def card(name: str) -> ModelCard:
    """The installed card of exactly this name, validated; raises Unknown, InvalidCard or Refused."""
    points = _registered()
    if name not in points:
        hint = "A checkpoint folder or a hub id (owner/name) works too."
        raise Unknown("card", name, points, hint=hint)
    try:
        loaded = points[name].load()
    except (ImportError, AttributeError) as error:
        raise Refused(f"card '{name}' cannot be imported from {points[name].value}: {error}") from error
    if not isinstance(loaded, ModelCard):
        raise Refused(f"entry point '{name}' of group {GROUP} is a {type(loaded).__name__}, not a ModelCard")
    return loaded.validate()


def find(name: str) -> ModelCard:
    """The card that serves `name`: an installed card, a checkpoint folder, or a hub id.

    Raises:
        Unknown: no installed card has that name and it is neither a folder nor a hub id.
        NotFound: no such folder or repository, or it has no `model_index.json`.
        Refused: the checkpoint's `model_index.json` is torn.
    """
    if name in _registered():
        return card(name)
    location = located(name)
    return card(name) if location is None else _for_checkpoint(location)


def located(name: str) -> Folder | HubRepository | None:
    """The checkpoint that a name means: a folder or a hub id; None when it can only be a card's name.

    Raises:
        NotFound: it is written as a folder, and there is none.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return Folder(folder.resolve())
    if "/" not in name:
        return None
    if name.count("/") > 1 or name.startswith((".", "/", "~")):
        raise NotFound(f"no checkpoint folder at '{name}'")
    repository, _, revision = name.partition("@")
    return HubRepository(repository, revision or None)


def _for_checkpoint(location: Folder | HubRepository) -> ModelCard:
    index = location.resolve((INDEX,)).json(INDEX)
    pipeline = str(index.get("_class_name", ""))
    if not pipeline:
        raise Refused(f"{INDEX} of '{location}' names no pipeline class (_class_name)")
    served_by = next((c for c in map(card, names()) if pipeline in c.pipelines), None)
    return fitted(replace(served_by or card(FALLBACK), location=location))


def fitted(card: ModelCard) -> ModelCard:
    """The card, validated, with what its checkpoint's configuration decides; see `Fitting`.

    Raises:
        InvalidCard: the card contradicts itself.
        NotFound, Refused: the checkpoint is missing, torn, or not one that the card drives.
    """
    if card.fitting is None or card.location is None:
        return card.validate()
    checkpoint = card.location.resolve((INDEX, *card.fitting.files))
    return card.fitting.fit(card, checkpoint).validate()
