"""Cells that were refused, each with the reason beside it. They are for people: nothing here is loaded."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path

from restrike.errors import RestrikeError
from restrike.mint.store.entry import SetAside
from restrike.store.files import write_file


class Quarantine:
    """The folder of refused cells of one store."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def take(self, path: Path, key: str, reason: str, detail: str) -> SetAside | None:
        """Move a file here; None if another process was first, or the store cannot be written."""
        aside = self._root / f"{key}-{time.time_ns()}{path.suffix}"
        note = aside.with_suffix(".json")
        try:
            # The note first: no cell lies here without one.
            write_file(note, json.dumps({"key": key, "reason": str(reason), "detail": detail}).encode())
            os.replace(path, aside)
        except (OSError, RestrikeError):
            with suppress(OSError):
                note.unlink(missing_ok=True)
            return None
        return SetAside(key=key, reason=str(reason), detail=detail, path=aside)

    def taken(self) -> tuple[SetAside, ...]:
        """What lies here, newest first."""
        found: list[SetAside] = []
        for note in self._root.glob("*.json"):
            aside = note.with_suffix(".cell")
            if aside.exists():
                found.append(SetAside(**json.loads(note.read_bytes()), path=aside))
        return tuple(sorted(found, key=lambda cell: cell.path.stem.rpartition("-")[2], reverse=True))

    def drop_older(self, age_s: float) -> tuple[int, int]:
        """Delete what lies here for longer; how many cells went, and their bytes."""
        removed = freed_bytes = 0
        for cell in self.taken():
            with suppress(OSError):
                status = cell.path.stat()
                # The change time: moving a file here sets it, and its other times are older.
                if time.time() - status.st_ctime > age_s:
                    cell.path.unlink()
                    cell.path.with_suffix(".json").unlink(missing_ok=True)
                    removed, freed_bytes = removed + 1, freed_bytes + status.st_size
        return removed, freed_bytes
