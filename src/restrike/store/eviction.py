"""Eviction by what is lost: seconds to compute again for each byte, aged by use. It removes, never changes.

The rule is GreedyDual-Size with frequency (Cherkasova 1998): priority = clock + uses * seconds / bytes, where
the clock is the highest priority evicted so far; so what was worth much once yields in time to what is used.
"""

from __future__ import annotations

import time

from sqlalchemy import bindparam, delete, func, insert, select, update

from restrike.keys import Digest
from restrike.store.blobs import Blobs
from restrike.store.entry import Collected
from restrike.store.leases import Leases
from restrike.store.schema import KEPT, Database, entries, entry_blobs, held, meta

_ORPHAN_AGE_S = 3600
_CLOCK = "clock"

# Built once: a run holds an entry for each of its steps and files.
_HOLD = insert(held).prefix_with("OR IGNORE")
_USE = (
    update(entries)
    .where(entries.c.digest == bindparam("entry_used"))
    .values(
        uses=entries.c.uses + 1,
        used=bindparam("now"),
        priority=select(func.coalesce(func.max(meta.c.value), 0.0))
        .where(meta.c.name == _CLOCK)
        .scalar_subquery()
        + (entries.c.uses + 1) * entries.c.seconds / func.max(entries.c.size_bytes, 1),
    )
)


class Eviction:
    """Keeps one store within its limit."""

    def __init__(self, database: Database, blobs: Blobs, leases: Leases) -> None:
        self._database, self._blobs, self._leases = database, blobs, leases

    def priority(self, seconds: float, size_bytes: int, *, uses: int) -> float:
        """What an entry is worth now."""
        with self._database.read() as connection:
            clock = connection.execute(select(meta.c.value).where(meta.c.name == _CLOCK)).scalar_one_or_none()
        return (clock or 0.0) + uses * seconds / max(size_bytes, 1)

    def hold(self, lease: str, digest: Digest) -> None:
        """Note that a lease needs an entry, so that no collection removes it, and count the use."""
        with self._database.write() as connection:
            connection.execute(_HOLD, {"lease": lease, "entry": digest.hex})
            connection.execute(_USE, {"entry_used": digest.hex, "now": time.time()})

    def shrink(self, limit_bytes: int, spare: Digest | None = None) -> tuple[int, int]:
        """Evict until the blobs fit the limit: how many entries went, and how many bytes became free."""
        evicted = freed_bytes = 0
        while self._kept_bytes() > limit_bytes:
            blobs = self._evict_least(spare)
            if blobs is None:
                break
            evicted += 1
            freed_bytes += sum(self._blobs.remove(blob) for blob in blobs)
        return evicted, freed_bytes

    def _kept_bytes(self) -> int:
        """Documents and blobs, each blob once."""
        with self._database.read() as connection:
            kept = connection.execute(select(meta.c.value).where(meta.c.name == KEPT)).scalar_one_or_none()
        return int(kept or 0)

    def _evict_least(self, spare: Digest | None) -> list[Digest] | None:
        """Remove the entry of least priority; the blobs that no other entry names, or None if none may go."""
        with self._database.write() as connection:
            free = (
                select(entries.c.digest, entries.c.priority)
                .where(entries.c.pinned.is_(None))
                .where(entries.c.digest.not_in(select(held.c.entry)))
                .order_by(entries.c.priority)
                .limit(1)
            )
            if spare is not None:
                free = free.where(entries.c.digest != spare.hex)
            least = connection.execute(free).one_or_none()
            if least is None:
                return None
            mine = connection.execute(
                select(entry_blobs.c.blob).where(entry_blobs.c.entry == least.digest)
            ).scalars()
            candidates = list(mine)
            connection.execute(delete(entries).where(entries.c.digest == least.digest))
            connection.execute(
                insert(meta).prefix_with("OR REPLACE").values(name=_CLOCK, value=least.priority)
            )
            shared = connection.execute(
                select(entry_blobs.c.blob).where(entry_blobs.c.blob.in_(candidates))
            ).scalars()
            still_named = set(shared)
        return [Digest(blob) for blob in candidates if blob not in still_named]

    def collect(self, limit_bytes: int) -> Collected:
        """Remove dead leases, leftovers, orphans, and what is over the limit."""
        dead = self._leases.drop_dead()
        partial = self._blobs.sweep_partial()
        evicted, freed_bytes = self.shrink(limit_bytes)
        orphans = 0
        with self._database.read() as connection:
            named = set(connection.execute(select(entry_blobs.c.blob)).scalars())
        for digest, _, age_s in self._blobs.present():
            # A blob is written before its entry: a young one may be about to be named.
            if digest.hex not in named and age_s > _ORPHAN_AGE_S:
                freed_bytes += self._blobs.remove(digest)
                orphans += 1
        return Collected(
            evicted=evicted, orphans=orphans, partial=partial, dead_leases=dead, freed_bytes=freed_bytes
        )
