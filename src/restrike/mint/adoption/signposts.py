"""Remembers which cells belong to a declared call, so that its key need not be made by tracing it again.

A hint and no more: the cell that it leads to is compared with the call, and proved against eager, as any
other. One that leads astray is taken down, and the call is traced.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from restrike.cards.card import ModelCard
from restrike.cards.compile import ShapeClass
from restrike.cards.deferred import Deferred
from restrike.engine.resident import ResidentCard
from restrike.engine.versions import versions
from restrike.errors import RestrikeError
from restrike.keys import Digest, Key, Unkeyable, file_digest, folder_digest
from restrike.mint.cell.facts import Stack, Target
from restrike.store.files import swap_file

_EPOCH = "1"
_WEIGHTS = (".safetensors", ".bin", ".gguf", ".pt", ".pth", ".ckpt")


class Signposts:
    """The signposts of one store."""

    def __init__(self, root: Path) -> None:
        self._root = root / "signposts"

    def read(self, key: Key | None) -> tuple[Digest, ...] | None:
        """The cells of the call, none for one that is never made; None where nothing is known."""
        try:
            found = self._read(key)
            return None if found is None else tuple(map(Digest, found))
        except RestrikeError:
            return None

    def write(self, key: Key | None, cells: Sequence[Digest]) -> None:
        """Remember the cells of a call; a store that cannot be written remembers nothing."""
        self._write(key, [cell.hex for cell in cells])

    def sizes(self, key: Key | None) -> tuple[str, ...]:
        """The shape classes that were minted of a card beside those that it declares, by name."""
        return tuple(self._read(key) or ())

    def add_size(self, key: Key | None, name: str) -> None:
        """Remember one more."""
        known = self.sizes(key)
        if name not in known:
            self._write(key, [*known, name])

    def remove(self, key: Key | None) -> None:
        """Forget what is known of a call."""
        if key is not None:
            self._attempt(lambda: self._path(key).unlink(missing_ok=True))

    def _read(self, key: Key | None) -> list[str] | None:
        if key is None:
            return None
        try:
            found = json.loads(self._path(key).read_bytes())
            # In full, as with every key: equal digests of unequal calls lead nowhere.
            return list(map(str, found["to"])) if found["of"] == key.encoding.hex() else None
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def _write(self, key: Key | None, to: list[str]) -> None:
        if key is not None:
            text = json.dumps({"of": key.encoding.hex(), "to": to})
            self._attempt(lambda: swap_file(self._path(key), text.encode()))

    def _path(self, key: Key) -> Path:
        return self._root / f"{key.digest.hex}.json"

    def _attempt(self, change: Any) -> None:
        try:
            change()
        except (OSError, RestrikeError):
            return


def sizes_key(resident: ResidentCard, target: Target) -> Key | None:
    """What the shape classes belong to that were minted beside the declared ones."""
    return _key(resident, {"target": target, "sizes": True})


def call_key(
    resident: ResidentCard,
    component: str,
    shape: ShapeClass,
    *,
    stack: Stack,
    target: Target,
    options: Mapping[str, Any],
) -> Key | None:
    """All that decides the graph of a declared call but the graph; None where its code cannot be known."""
    asked = {"component": component, "shape": asdict(shape), "options": dict(options)}
    return _key(resident, {**asked, "stack": stack, "target": target})


def _key(resident: ResidentCard, asked: Mapping[str, Any]) -> Key | None:
    card = resident.card
    code = _code_of(card)
    if code is None:
        return None
    parts = {
        **asked,
        "architecture": card.architecture,
        "sampling": [card.example or card.description, asdict(card.defaults)],
        "dtype": resident.placement.dtype,
        "code": code,
        "configuration": _configuration(resident),
        "versions": versions(card.libraries),
    }
    try:
        return Key("cell-signpost", _EPOCH, parts)
    except Unkeyable:
        return None


def _code_of(card: ModelCard) -> dict[str, object] | None:
    """What builds its loops and components, and the digests of the folders with that code and the loops'."""
    named = [*(part.load for part in card.components), *(loop.build for loop in card.loops)]
    if not all(isinstance(each, Deferred) for each in named):
        return None
    made = [each for each in named if isinstance(each, Deferred)]
    modules = {each.target.partition(":")[0] for each in made}
    folders = {name: _folder_of(name) for name in sorted({*modules, "restrike.loops.contract"})}
    return {"folders": folders, "built": [[each.target, list(each.arguments)] for each in made]}


@cache
def _folder_of(module: str) -> str:
    file = Path(inspect.getfile(import_module(module)))
    return str(folder_digest(file.parent, patterns=("*.py",)))


def _configuration(resident: ResidentCard) -> dict[str, str]:
    """The digests of the checkpoint's files that hold no weights."""
    names = tuple(part.name for part in resident.card.components)
    checkpoint = resident.checkpoint(names)
    patterns = tuple(file for part in resident.card.components for file in part.files)
    return {
        path.relative_to(checkpoint.root).as_posix(): str(file_digest(path))
        for path in checkpoint.files(patterns)
        if not path.name.endswith(_WEIGHTS)
    }
