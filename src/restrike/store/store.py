"""The store: looks results up by key, reads them whole, keeps new ones, lets one process compute at a time.

It never hands out what it could not verify, and never decides what is in a key.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import LargeBinary, Row, bindparam, delete, func, insert, literal, select, update
from sqlalchemy.exc import IntegrityError

from restrike.errors import NotFound, Refused, Shortfall
from restrike.keys import Digest, Key
from restrike.store.blobs import Blobs, Damaged
from restrike.store.entry import Collected, Entry, Stats, Verified
from restrike.store.eviction import Eviction
from restrike.store.leases import Leases
from restrike.store.owner import Owner
from restrike.store.schema import Database, Torn, entries, entry_blobs, timings
from restrike.store.values import blobs_of, document_digest, pack, unpack

DEFAULT_LIMIT_BYTES = 50 << 30
_TIMINGS_KEPT = 50

# Built once: a plan asks them for each of its steps.
_BY_DIGEST = select(entries).where(entries.c.digest == bindparam("wanted"))
_BY_FAMILY = select(entries.c.digest).where(entries.c.family == bindparam("wanted")).limit(1)


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The outcome of keeping a value. `other` is an earlier, different value under the same key.

    An operation that gives two values for one key is not deterministic; the first value stays.
    """

    entry: Entry
    other: Digest | None = None


P = ParamSpec("P")
R = TypeVar("R")


def _mended(
    method: Callable[Concatenate[Store, P], R],
) -> Callable[Concatenate[Store, P], R]:
    """Once more when the index is found torn: by then it is set aside, and a new one begun."""

    @wraps(method)
    def call(store: Store, *args: P.args, **named: P.kwargs) -> R:
        try:
            return method(store, *args, **named)
        except Torn:
            return method(store, *args, **named)

    return call


class Store:
    """One folder, shared by any number of processes; it is made when the first result is kept."""

    def __init__(self, root: Path, *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.root = root
        self.limit_bytes = limit_bytes
        self.blobs = Blobs(root)
        self._database = Database(root / "index.sqlite")
        self.notice = self._database.notice
        self.leases = Leases(self._database)
        self._eviction = Eviction(self._database, self.blobs, self.leases)

    @property
    def writable(self) -> bool:
        """Whether results can be kept; a store that cannot be written is still read."""
        return self._database.writable

    @_mended
    def lookup(self, key: Key) -> Entry | None:
        """The result kept under exactly this key."""
        with self._database.read() as connection:
            row = connection.execute(_BY_DIGEST, {"wanted": key.digest.hex}).one_or_none()
        # Two keys of one digest would be a broken hash; the stored key says which of them this is.
        return _entry(row) if row is not None and row.encoding == key.encoding and _is_whole(row) else None

    def read(self, entry: Entry) -> Any:
        """The value of an entry, every blob verified.

        Raises:
            Damaged: a blob is missing or wrong; the entry is gone then, so the next lookup misses.
        """
        try:
            value = unpack(entry.document, self.blobs.read)
        except Damaged:
            with suppress(Refused, Shortfall):
                self.remove(entry.key)
            raise
        return value

    @_mended
    def put(
        self, key: Key, value: object, *, seconds: float, label: str, origin: str, family: Digest
    ) -> Kept:
        """Keep a value: blobs first, the index row last.

        `family` is the digest of what the key says without its inputs.

        Raises:
            Unkeyable: the value cannot be digested.
            Shortfall: no space is left.
            Refused: the store cannot be written.
        """
        self._database.check_writable()
        packed = pack(value)
        for digest, data in packed.blobs.items():
            self.blobs.put(digest, data)
        now = time.time()
        row = {
            "digest": key.digest.hex,
            "encoding": key.encoding,
            "domain": key.domain,
            "label": label,
            "family": family.hex,
            "value": packed.digest.hex,
            "document": packed.document,
            "size_bytes": packed.size_bytes,
            "seconds": seconds,
            "origin": origin,
            "created": now,
            "used": now,
            "uses": 1,
            "priority": self._eviction.priority(seconds, packed.size_bytes, uses=1),
        }
        with self._database.write() as connection:
            earlier = connection.execute(
                select(entries).where(entries.c.digest == key.digest.hex)
            ).one_or_none()
            if earlier is not None and not _is_whole(earlier):
                connection.execute(delete(entries).where(entries.c.digest == key.digest.hex))
                earlier = None
            if earlier is None:
                connection.execute(insert(entries).values(row))
                sizes = [
                    {"entry": key.digest.hex, "blob": digest.hex, "size_bytes": data.nbytes}
                    for digest, data in packed.blobs.items()
                ]
                if sizes:
                    connection.execute(insert(entry_blobs), sizes)
        for digest, data in packed.blobs.items():
            # Another process may have evicted a blob between its writing and the row that now protects it.
            self.blobs.put(digest, data)
        kept = self.lookup(key)
        if kept is None:
            raise Refused("the result was removed while it was kept; is the store's limit too small?")
        self._eviction.shrink(self.limit_bytes, spare=kept.key.digest)
        return Kept(entry=kept, other=packed.digest if kept.value != packed.digest else None)

    @_mended
    def remove(self, key: Key) -> None:
        """Forget a result; its blobs go with the next collection."""
        self._remove(key.digest.hex)

    def _remove(self, digest: str) -> None:
        if self.writable:
            with self._database.write() as connection:
                connection.execute(delete(entries).where(entries.c.digest == digest))

    @contextmanager
    def flight(self, key: Key, check: Callable[[], None] = lambda: None) -> Iterator[Entry | None]:
        """Let one process compute a key: yields None to it, and the finished entry to all others.

        Who waits takes over when the owner dies or lets go without a result. `check` may raise to stop
        waiting. A store that cannot be written, or is full, has no flights: everyone computes.
        """
        found = self.lookup(key)
        if found is not None or not self.writable:
            yield found
            return
        name, owner = f"flight {key.digest.hex}", Owner.here()
        try:
            leased = self.leases.wait(name, owner, lambda: self.lookup(key) is not None, check)
        except (Refused, Shortfall, Torn):
            leased = False
        with self.leases.kept(name, owner) if leased else nullcontext():
            # The last owner may have finished between the look and the lease.
            yield self.lookup(key)

    @contextmanager
    def holding(self, run: str) -> Iterator[Callable[[Entry], None]]:
        """While the block runs, no collection removes the entries that are given to the yielded function.

        Each is counted as used once more.
        """
        if not self.writable:
            yield lambda entry: None
            return
        name, owner = f"run {run} {Owner.here().token}", Owner.here()

        def hold(entry: Entry) -> None:
            # On a full disk nothing is kept, so nothing has to be evicted either.
            with suppress(Refused, Shortfall, Torn):
                try:
                    self._eviction.hold(name, entry.key.digest)
                except IntegrityError:
                    # The lease ran out, as of a process that slept, and was swept away.
                    self.leases.take(name, owner)
                    self._eviction.hold(name, entry.key.digest)

        with suppress(Refused, Shortfall, Torn):
            self.leases.take(name, owner)
        with self.leases.kept(name, owner):
            yield hold

    @_mended
    def find(self, prefix: str) -> Entry:
        """The entry whose digest begins so; raises NotFound for none, Refused for several."""
        with self._database.read() as connection:
            rows = connection.execute(
                select(entries).where(entries.c.digest.startswith(prefix, autoescape=True)).limit(2)
            ).all()
        if not rows:
            raise NotFound(f"no result has a key that begins with '{prefix}'")
        if not all(map(_is_whole, rows)):
            raise Damaged("what is kept under this key is damaged; `restrike store verify` removes it")
        if len(rows) > 1:
            raise Refused(f"several keys begin with '{prefix}'; give more digits")
        return _entry(rows[0])

    @_mended
    def pin(self, key: Key, reason: str | None) -> None:
        """Keep an entry whatever the limit says; a reason of None unpins it."""
        with self._database.write() as connection:
            connection.execute(
                update(entries).where(entries.c.digest == key.digest.hex).values(pinned=reason)
            )

    @_mended
    def nearest(
        self,
        key: Key,
        label: str,
        before: float = math.inf,
        counts: Callable[[str], bool] = lambda origin: True,
    ) -> Key | None:
        """The key of the same operation, kept `before`, that differs from this one in the fewest places.

        Only one whose origin `counts`, and of the same scope: what another workspace keeps is its own.
        """
        scope = key.parts.get("scope")
        # The encoding holds a text as it is; most others are left out before any is decoded.
        alike = func.instr(entries.c.encoding, literal(str(scope or "").encode(), LargeBinary)) > 0
        with self._database.read() as connection:
            rows = connection.execute(
                select(entries.c.digest, entries.c.encoding, entries.c.origin)
                .where(entries.c.domain == key.domain, entries.c.label == label, alike)
                .where(entries.c.digest != key.digest.hex, entries.c.created < min(before, time.time() + 1))
                .order_by(entries.c.created.desc())
                .limit(50)
            )
            others = [Key.decode(row.encoding) for row in rows if _is_key_whole(row) and counts(row.origin)]
        mine = (other for other in others if other.parts.get("scope") == scope)
        return min(mine, key=lambda other: len(key.diff(other)), default=None)

    @_mended
    def has_family(self, family: Digest) -> bool:
        """Whether some result is kept whose key says the same but for its inputs."""
        with self._database.read() as connection:
            return connection.execute(_BY_FAMILY, {"wanted": family.hex}).first() is not None

    @_mended
    def record_timing(self, label: str, seconds: float) -> None:
        """Remember how long an operation took; outlives the result itself."""
        if not self.writable:
            return
        with self._database.write() as connection:
            connection.execute(insert(timings).values(label=label, seconds=seconds))
            newest = select(timings.c.id).where(timings.c.label == label).order_by(timings.c.id.desc())
            connection.execute(
                delete(timings).where(
                    timings.c.label == label, timings.c.id.not_in(newest.limit(_TIMINGS_KEPT))
                )
            )

    @_mended
    def timings(self, label: str) -> tuple[float, ...]:
        """The newest measured seconds of an operation, newest first."""
        with self._database.read() as connection:
            found = connection.execute(
                select(timings.c.seconds).where(timings.c.label == label).order_by(timings.c.id.desc())
            )
            return tuple(found.scalars())

    @_mended
    def stats(self) -> Stats:
        """What is kept."""
        with self._database.read() as connection:
            total, seconds, pinned = connection.execute(
                select(
                    func.count(),
                    func.coalesce(func.sum(entries.c.seconds), 0.0),
                    func.count(entries.c.pinned),
                )
            ).one()
            labels = connection.execute(select(entries.c.label, func.count()).group_by(entries.c.label))
            by_label = {row.label: row[1] for row in labels}
        sizes = [size_bytes for _, size_bytes, _ in self.blobs.present()]
        return Stats(
            entries=total,
            blobs=len(sizes),
            size_bytes=sum(sizes),
            limit_bytes=self.limit_bytes,
            seconds=seconds,
            pinned=pinned,
            by_label=by_label,
        )

    @_mended
    def verify(self) -> Verified:
        """Digest every blob again; set damaged ones aside and forget the entries that need them."""
        wrong = {digest for digest, _, _ in self.blobs.present() if not self.blobs.is_whole(digest)}
        for digest in wrong:
            self.blobs.quarantine(digest)
        present = {digest for digest, _, _ in self.blobs.present()}
        with self._database.read() as connection:
            rows = connection.execute(select(entries)).all()
        damaged = [row for row in rows if not (_is_whole(row) and blobs_of(row.document) <= present)]
        for row in damaged:
            self._remove(row.digest)
        names = tuple(f"{row.label} {row.digest[:12]}" for row in damaged)
        return Verified(entries=len(rows), blobs=len(present) + len(wrong), damaged=names)

    @_mended
    def collect(self, limit_bytes: int | None = None) -> Collected:
        """Remove what nothing needs: dead leases, leftovers of dead writers, orphans, all over the limit."""
        return self._eviction.collect(self.limit_bytes if limit_bytes is None else limit_bytes)


def _is_key_whole(row: Any) -> bool:
    """Whether the index still has the key that the entry was kept under."""
    return hashlib.sha256(row.encoding).hexdigest() == row.digest


def _is_whole(row: Row[Any]) -> bool:
    """Whether the index still has what was written: SQLite does not look at what its pages hold."""
    return _is_key_whole(row) and document_digest(row.document).hex == row.value


def _entry(row: Row[Any]) -> Entry:
    return Entry(
        key=Key.decode(row.encoding),
        value=Digest(row.value),
        document=row.document,
        size_bytes=row.size_bytes,
        seconds=row.seconds,
        label=row.label,
        origin=row.origin,
        created=row.created,
        uses=row.uses,
        pinned=row.pinned,
    )
