"""The assets of a workspace: files that workflows read as `$asset.NAME`. Each appears whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from restrike.errors import Conflict, NotFound, typed
from restrike.server.security.confined import inside, named
from restrike.store.files import copy_file, sync_folder
from restrike.workflow.runs import RunFolder
from restrike.workflow.workspace_files import ASSETS

_PARTIAL = Path(".restrike") / "uploads"
_MAX_LISTED = 10_000


@dataclass(frozen=True, kw_only=True)
class Asset:
    """One file; `changed` is in seconds since the epoch."""

    name: str
    size_bytes: int
    changed: float


class Assets:
    """The assets of one workspace."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._root = workspace / ASSETS

    def listed(self) -> tuple[Asset, ...]:
        """All of them by name, at most so many as a page can bear."""
        found: list[Asset] = []
        for path in sorted(self._root.rglob("*")):
            name = path.relative_to(self._root).as_posix()
            if len(found) < _MAX_LISTED and path.is_file() and not path.is_symlink():
                status = path.stat()
                found.append(Asset(name=name, size_bytes=status.st_size, changed=status.st_mtime))
        return tuple(found)

    def path(self, name: str) -> Path:
        """The file of an asset; raises NotFound."""
        return inside(self._root, name, "asset")

    @contextmanager
    def written(self, name: str, *, replace: bool) -> Iterator[BinaryIO]:
        """A file to write an asset to; it has its name when the block ends well, and is gone if not.

        Raises:
            Refused: it is no name for a file.
            Conflict: there is one of that name, and `replace` does not say that it may go.
            Shortfall: the disk is full.
        """
        target = self._root / named(name, "an asset")
        if not replace and target.exists():
            raise _taken(name)
        partial = self._workspace / _PARTIAL / f"{secrets.token_hex(8)}.part"
        try:
            partial.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            self._land(partial, target, name, replace)
        except OSError as error:
            raise typed(error) from error
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)

    def _land(self, partial: Path, target: Path, name: str, replace: bool) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.parent.resolve().is_relative_to(self._root.resolve()):
            raise NotFound(f"no folder for asset '{name}'")
        if replace:
            os.replace(partial, target)
        else:
            try:
                os.link(partial, target)
            except FileExistsError as error:
                raise _taken(name) from error
        sync_folder(target.parent)

    def keep(self, run: str, file: str, name: str, *, replace: bool) -> Path:
        """Make a file of a run an asset of its own, which stays when the run is deleted."""
        target = self._root / named(name, "an asset")
        source = inside(RunFolder.open(self._workspace, run).path, file, f"file of run '{run}':")
        if not replace and target.exists():
            raise _taken(name)
        copy_file(source, target)
        return target

    def delete(self, name: str) -> None:
        """Remove an asset; runs that read it have what they need. Raises NotFound."""
        self.path(name).unlink()


def _taken(name: str) -> Conflict:
    return Conflict(f"there is an asset '{name}'; say replace=true to take its place")
