"""The tables of the index, and how a database is opened so that several processes can share it.

The index says what is there; it holds no big values. A database that is torn is set aside, never mended.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakSet, finalize

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    create_engine,
    event,
    text,
)
from sqlalchemy.exc import DatabaseError, IntegrityError, OperationalError

from restrike.errors import Crashed, Refused, Shortfall

VERSION = 1
BUSY_TIMEOUT_S = 30

metadata = MetaData()

entries = Table(
    "entries",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("encoding", LargeBinary, nullable=False),
    Column("domain", Text, nullable=False),
    Column("label", Text, nullable=False),
    Column("family", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("document", LargeBinary, nullable=False),
    Column("size_bytes", Integer, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("origin", Text, nullable=False),
    Column("created", Float, nullable=False),
    Column("used", Float, nullable=False),
    Column("uses", Integer, nullable=False),
    Column("priority", Float, nullable=False),
    Column("pinned", Text),
    Index("entries_by_family", "family"),
    Index("entries_by_label", "domain", "label", "created"),
    Index("entries_by_priority", "priority"),
)

entry_blobs = Table(
    "entry_blobs",
    metadata,
    Column("entry", Text, ForeignKey("entries.digest", ondelete="CASCADE"), primary_key=True),
    Column("blob", Text, primary_key=True),
    Column("size_bytes", Integer, nullable=False),
    Index("entry_blobs_by_blob", "blob"),
)

leases = Table(
    "leases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("expires", Float, nullable=False),
)

held = Table(
    "held",
    metadata,
    Column("lease", Text, ForeignKey("leases.name", ondelete="CASCADE"), primary_key=True),
    Column("entry", Text, primary_key=True),
)

timings = Table(
    "timings",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("label", Text, nullable=False),
    Column("seconds", Float, nullable=False),
    Index("timings_by_label", "label", "id"),
)

meta = Table("meta", metadata, Column("name", Text, primary_key=True), Column("value", Float, nullable=False))


class Torn(Crashed):
    """The store's index is no database, or not a whole one."""


class Database:
    """The SQLite file of one store."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._engine = _engine(path)
        finalize(self, self._engine.dispose)
        self.writable = self._prepare()

    def _prepare(self) -> bool:
        """Create what is missing; False when the file can be read only."""
        try:
            with self.write() as connection:
                version = connection.execute(text("PRAGMA user_version")).scalar_one()
                if version > VERSION:
                    raise Refused(
                        f"the store's index has version {version}, this Restrike knows {VERSION}; upgrade it"
                    )
                if version < VERSION:
                    metadata.create_all(connection)
                    connection.execute(text(f"PRAGMA user_version = {VERSION}"))
        except Refused as error:
            if not self.path.exists() or "version" in str(error):
                raise
            return False
        return True

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection that sees one state of the index."""
        with _translated(self.path), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that no other writer can come between; rolled back on any error."""
        with _translated(self.path), self._engine.connect() as connection:
            connection.execute(text("BEGIN IMMEDIATE"))
            try:
                yield connection
            except BaseException:
                connection.rollback()
                raise
            connection.commit()


_engines: WeakSet[Engine] = WeakSet()


def _forget_connections() -> None:
    """A forked child must not use, nor close, its parent's connections."""
    for engine in list(_engines):
        engine.dispose(close=False)


os.register_at_fork(after_in_child=_forget_connections)


def _engine(path: Path) -> Engine:
    # Connections stay open: closing the last one of a process would write the whole log back each time.
    engine = create_engine(
        f"sqlite:///{path}", connect_args={"timeout": BUSY_TIMEOUT_S, "check_same_thread": False}
    )
    _engines.add(engine)

    @event.listens_for(engine, "connect")
    def configure(connection: object, _record: object) -> None:
        connection.isolation_level = None  # type: ignore[attr-defined]  # transactions are begun by hand
        cursor = connection.cursor()  # type: ignore[attr-defined]
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute("PRAGMA synchronous = NORMAL")
        if os.access(path.parent, os.W_OK):
            cursor.execute("PRAGMA journal_mode = WAL")
        cursor.close()

    return engine


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Give SQLite's failures their place in the failure tree."""
    try:
        yield
    except OperationalError as error:
        reason = str(error.orig)
        if "readonly" in reason or "unable to open" in reason:
            raise Refused(f"the store's index '{path.name}' cannot be written ({reason})") from error
        if "full" in reason or "locked" in reason:
            raise Shortfall(f"the store's index: {reason}") from error
        raise Torn(f"the store's index: {reason}") from error
    except IntegrityError:
        raise
    except DatabaseError as error:
        raise Torn(f"the store's index: {error.orig}") from error


def open_database(root: Path) -> tuple[Database, str | None]:
    """The index of a store, and a line that says so when a torn one had to be set aside."""
    path = root / "index.sqlite"
    try:
        return Database(path), None
    except Torn as error:
        aside = root / "quarantine"
        aside.mkdir(exist_ok=True)
        stamp = int(time.time())
        for suffix in ("", "-wal", "-shm"):
            torn = path.with_name(path.name + suffix)
            if torn.exists():
                os.replace(torn, aside / f"{torn.name}-{stamp}")
        return Database(path), f"{error}; it was set aside, a new one is begun"
