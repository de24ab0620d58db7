"""What will work here, what will not, and why. Each answer is tried or read off, never assumed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from restrike.cards import registry
from restrike.cli import machine
from restrike.errors import RestrikeError
from restrike.media import Container, Gif, Jpeg, Mp4, Png, WebM, WebP, encode

if TYPE_CHECKING:
    from restrike.cards.card import ModelCard

_KINDS: tuple[Container, ...] = (Png(), Jpeg(), WebP(), Gif(), Mp4(), WebM())
_OFFLINE = ("1", "ON", "YES", "TRUE")


@dataclass(frozen=True, kw_only=True)
class Ability:
    """One thing that a person may want to do; `why` tells the reason, or how to get it."""

    name: str
    works: bool
    why: str


def abilities() -> tuple[Ability, ...]:
    """All of them, in the order in which they are shown."""
    return (*_cards(), *_kinds(), _gpu(), _hub(), _preview(), _folder())


def _cards() -> Iterator[Ability]:
    for name in registry.names():
        try:
            yield _card(registry.card(name))
        except (RestrikeError, ImportError) as error:
            yield Ability(name=f"card {name}", works=False, why=str(error))


def _card(card: ModelCard) -> Ability:
    name = f"card {card.name}"
    if card.location is not None:
        checkpoint = card.location.resolve(())
        lost = [part.name for part in card.components if not checkpoint.files(part.files)]
        why = f"its weights lack {', '.join(lost)}; reinstall restrike" if lost else "its weights are here"
        return Ability(name=name, works=not lost, why=why)
    lacking = machine.missing("diffusers")
    if lacking:
        why = f"{', '.join(lacking)} not installed: pip install 'restrike[diffusers]'"
        return Ability(name=name, works=False, why=why)
    return Ability(name=name, works=True, why="with weights of yours: --card FOLDER or --card HUB_ID")


def _kinds() -> Iterator[Ability]:
    import numpy as np

    frame_THWC = np.zeros((1, 16, 16, 3), np.uint8)
    for kind in _KINDS:
        name = f"files {' '.join(kind.suffixes)}"
        try:
            encode(frame_THWC, kind, fps=8.0)
            yield Ability(name=name, works=True, why=f"{kind.name} encodes")
        except Exception as error:
            # A codec that was built in another way may fail in any way.
            yield Ability(name=name, works=False, why=f"{type(error).__name__}: {error}")


def _gpu() -> Ability:
    import torch

    if torch.cuda.is_available():
        return Ability(name="gpu", works=True, why=f"CUDA {torch.version.cuda}")
    if torch.backends.mps.is_available():
        return Ability(name="gpu", works=True, why="Metal")
    if torch.version.cuda is None:
        return Ability(name="gpu", works=False, why=f"torch {torch.__version__} is built for the CPU alone")
    return Ability(name="gpu", works=False, why=f"torch has CUDA {torch.version.cuda}, but sees no device")


def _hub() -> Ability:
    found = machine.hub()
    if machine.installed("huggingface-hub") is None:
        why = "huggingface-hub not installed: pip install 'restrike[diffusers]'"
        return Ability(name="hub", works=False, why=why)
    if found["variables"].get("HF_HUB_OFFLINE", "").upper() in _OFFLINE:
        return Ability(name="hub", works=False, why="HF_HUB_OFFLINE is set: only what is cached")
    return Ability(name="hub", works=True, why="models are downloaded when asked for (not tried now)")


def _preview() -> Ability:
    from rich.console import Console

    from restrike.cli.screen import can_preview

    if not sys.stderr.isatty():
        return Ability(name="preview", works=False, why="stderr is no terminal")
    if can_preview(Console(stderr=True)):
        return Ability(name="preview", works=True, why="this terminal has the colours")
    return Ability(name="preview", works=False, why="it needs 256 colours, and NO_COLOR unset")


def _folder() -> Ability:
    from restrike.media.publish import check_writable

    try:
        check_writable(Path("restrike-doctor.png"))
        return Ability(name="this folder", works=True, why=f"{Path.cwd()} can be written")
    except RestrikeError as error:
        return Ability(name="this folder", works=False, why=str(error))
