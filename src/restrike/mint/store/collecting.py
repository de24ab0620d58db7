"""Removes what the store does not need: leftovers of dead writers, and the cells not used for longest.

A cell that a living process mints or uses stays, whatever the limit says.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sqlalchemy import select

from restrike.mint.store.entry import Collected
from restrike.mint.store.quarantine import Quarantine
from restrike.store.leases import Leases
from restrike.store.schema import Database, leases

_LEFT_AFTER_S = 3600
_QUARANTINED_FOR_S = 30 * 24 * 3600


class Collecting:
    """One collection of one store."""

    def __init__(self, database: Database, held: Leases, sealed: Path) -> None:
        self._database, self._leases, self._sealed = database, held, sealed

    def collect(self, limit_bytes: int, *, partial: Path, quarantine: Quarantine) -> Collected:
        """Remove all that may go; raises Refused when the store cannot be written."""
        dead = self._leases.drop_dead()
        leftovers, left_bytes = _sweep(partial)
        quarantined, quarantined_bytes = quarantine.drop_older(_QUARANTINED_FOR_S)
        evicted, evicted_bytes = self._shrink(limit_bytes)
        return Collected(
            evicted=evicted,
            partial=leftovers,
            quarantined=quarantined,
            dead_leases=dead,
            freed_bytes=left_bytes + quarantined_bytes + evicted_bytes,
        )

    def _shrink(self, limit_bytes: int) -> tuple[int, int]:
        """Delete cells, the longest unused first, until the rest fits; how many, and their bytes."""
        removed = freed_bytes = 0
        # While this transaction lasts, nobody takes a lease: who opens a cell did so before, or finds none.
        with self._database.write() as connection:
            needed = {name.split(" ")[1] for name in connection.execute(select(leases.c.name)).scalars()}
            cells = list(_with_status(self._sealed))
            over = sum(status.st_size for status, _ in cells) - limit_bytes
            for status, path in sorted(cells, key=lambda cell: cell[0].st_mtime):
                if over - freed_bytes <= 0:
                    break
                if path.stem not in needed:
                    path.unlink(missing_ok=True)
                    removed, freed_bytes = removed + 1, freed_bytes + status.st_size
        return removed, freed_bytes


def _with_status(sealed: Path) -> Iterator[tuple[os.stat_result, Path]]:
    """The cells; who sets one aside holds no transaction, so that one may go meanwhile."""
    for path in sealed.glob("*.cell"):
        with suppress(FileNotFoundError):
            yield path.stat(), path


def _sweep(partial: Path) -> tuple[int, int]:
    """Delete what writers that died left behind; how many files, and their bytes."""
    removed = freed_bytes = 0
    for path in (each for each in partial.rglob("*") if each.is_file()):
        with suppress(OSError):
            status = path.stat()
            if time.time() - status.st_mtime > _LEFT_AFTER_S:
                path.unlink()
                removed, freed_bytes = removed + 1, freed_bytes + status.st_size
    return removed, freed_bytes
