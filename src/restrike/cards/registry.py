"""Finds the card for a name, a checkpoint folder or a hub id.

Cards are entry points of the group `restrike.cards`, imported one at a time when asked for. A checkpoint's
architecture is read from its `model_index.json` alone, before any weights are fetched.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from restrike.cards.card import ModelCard
from restrike.cards.checkpoint import Folder, HubRepository
from restrike.errors import NotFound, Refused, Unknown, near_beside

_log = logging.getLogger(__name__)

GROUP = "restrike.cards"
INDEX = "model_index.json"
FALLBACK = "pipeline"
DEFAULT = "shapes"
"""The card of a request that names none."""


@cache
def _registered() -> dict[str, tuple[EntryPoint, ...]]:
    """What is installed under each name: one place, unless two packages claim it."""
    found: dict[str, dict[str, EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        found.setdefault(point.name, {}).setdefault(point.value, point)
    return {name: tuple(claims.values()) for name, claims in found.items()}


def names() -> tuple[str, ...]:
    """The names of all installed cards, without importing any."""
    return tuple(sorted(_registered()))


def card(name: str) -> ModelCard:
    """The installed card of exactly this name, validated; raises Unknown, InvalidCard or Refused."""
    points = _registered()
    if name not in points:
        hint = "A checkpoint folder or a hub id (owner/name) works too."
        raise Unknown("card", name, points, hint=hint)
    point, *others = points[name]
    if others:
        owners = " and ".join(sorted(claim.value for claim in points[name]))
        raise Refused(f"two packages register a card '{name}': {owners}; uninstall one")
    try:
        loaded = point.load()
    except Exception as error:  # another package's code, which may fail in any way
        reason = f"{type(error).__name__}: {error}"
        raise Refused(f"card '{name}' cannot be imported from {point.value}: {reason}") from error
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
        Refused: it is a file, as ComfyUI's checkpoints are.
    """
    folder = Path(os.path.expanduser(name))  # unlike Path's own, it leaves an unknown '~user' as it is
    if name and folder.is_dir():
        return Folder(folder.resolve())
    if name and folder.is_file():
        raise Refused(f"'{name}' is a file; a checkpoint is a folder in the diffusers layout, with {INDEX}")
    if "/" not in name:
        return None
    if name.count("/") > 1 or name.startswith((".", "/", "~")):
        raise NotFound(f"no checkpoint folder at '{name}'{near_beside(name, Path.is_dir)}")
    repository, _, revision = name.partition("@")
    return HubRepository(repository, revision or None)


def _for_checkpoint(location: Folder | HubRepository) -> ModelCard:
    index = location.resolve((INDEX,)).json(INDEX)
    pipeline = str(index.get("_class_name", ""))
    if not pipeline:
        raise Refused(f"{INDEX} of '{location}' names no pipeline class (_class_name)")
    served_by = next((found for found in _usable() if pipeline in found.pipelines), None)
    return fitted(replace(served_by or card(FALLBACK), location=location))


def _usable() -> Iterator[ModelCard]:
    """The installed cards; one that is broken is told and keeps no other from being found."""
    for name in names():
        try:
            yield card(name)
        except Refused as error:
            _log.warning("%s", error.message)


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
