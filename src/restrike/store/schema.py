"""The tables of the index, and how a database is opened so that several processes can share it.

The index says what is there; it holds no big values. A database that is torn is set aside, never mended.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from urllib.parse import quote
from weakref import WeakSet, finalize

from sqlalchemy import (
    URL,
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
from sqlalchemy.exc import DatabaseError, IntegrityError
from sqlalchemy.pool import StaticPool

from restrike.errors import Crashed, Refused, RestrikeError, Shortfall, typed

_log = logging.getLogger(__name__)

VERSION = 2
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

KEPT = "kept_bytes"
meta = Table("meta", metadata, Column("name", Text, primary_key=True), Column("value", Float, nullable=False))


class Torn(Crashed):
    """The store's index is no database, or not a whole one."""


# By the names of SQLite's result codes. An input-output error is most often a disk too full for the log.
_KINDS: tuple[tuple[tuple[str, ...], type[RestrikeError]], ...] = (
    (("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_IOERR_SHORT_READ"), Torn),
    (("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM"), Refused),
    (("SQLITE_FULL", "SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_IOERR", "SQLITE_NOMEM"), Shortfall),
)


class Database:
    """The SQLite file of one store. It is made by the first write; until then reading finds nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notice: str | None = None
        """A line that says so when a torn index had to be set aside while this one was opened."""
        self._engine: Engine | None = None
        self._file: tuple[int, int] | None = None
        self._lock = threading.Lock()
        folder = next(parent for parent in path.parents if parent.exists())
        self.writable = os.access(folder, os.W_OK) and (os.access(path, os.W_OK) or not path.exists())
        self._why = "no permission"
        if path.exists():
            try:
                self._opened()
            except Torn as error:
                self.notice = self._begin_anew(error)

    def _opened(self) -> Engine:
        """The engine of the file, which is made if it does not exist and can be."""
        with self._lock:
            if self._engine is None:
                self._file = _file_at(self.path)
                engine = self._made() if self.writable else _readable(self.path)
                if engine is not _nothing():
                    finalize(self, engine.dispose)
                self._engine = engine
            return self._engine

    def _made(self) -> Engine:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            engine = _engine(self.path, writable=True)
            with _translated(self.path):
                _migrate(engine)
        except (OSError, Shortfall) as error:
            # What is kept can still be read.
            self.writable, self._why = False, typed(error).message
            return _readable(self.path)
        self._file = _file_at(self.path)
        return engine

    def _begin_anew(self, torn: Torn) -> str:
        """Set the torn file aside, unless another process has done so; returns the line that says so."""
        with self._lock:
            engine, self._engine = self._engine, None
            if not self.writable:
                self._engine = _nothing()
            elif self._file is not None and self._file == _file_at(self.path):
                _set_aside(self.path)
            if engine is not None:
                engine.dispose()
        return f"{torn}; " + ("it is not used" if self._engine else "it was set aside, a new one is begun")

    def check_writable(self) -> None:
        """Raise Refused when nothing can be kept, saying why."""
        if not self.writable:
            raise Refused(f"the store at '{self.path.parent}' cannot be written ({self._why})")

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection that sees one state of the index."""
        engine = self._opened() if self._engine or self.path.exists() else _nothing()
        with self._mending(engine), engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that no other writer can come between; rolled back on any error."""
        self.check_writable()
        engine = self._opened()
        self.check_writable()
        with self._mending(engine), engine.connect() as connection:
            connection.execute(text("BEGIN IMMEDIATE"))
            try:
                yield connection
            except BaseException:
                connection.rollback()
                raise
            connection.commit()

    @contextmanager
    def _mending(self, engine: Engine) -> Iterator[None]:
        """Begin the index anew when it turns out torn; Torn is raised all the same: the answer is lost."""
        try:
            with _translated(self.path):
                yield
        except Torn as error:
            if engine is self._engine:
                _log.warning("%s", self._begin_anew(error))
            raise


# Version 2: the index counts what it names as it changes, for adding it up takes longer the more there is.
_COUNTING = (
    f"""INSERT OR REPLACE INTO meta VALUES ('{KEPT}',
        (SELECT COALESCE(SUM(LENGTH(document)), 0) FROM entries)
        + (SELECT COALESCE(SUM(size_bytes), 0) FROM (SELECT DISTINCT blob, size_bytes FROM entry_blobs)))""",
    f"""CREATE TRIGGER entry_kept AFTER INSERT ON entries BEGIN
        UPDATE meta SET value = value + LENGTH(NEW.document) WHERE name = '{KEPT}'; END""",
    f"""CREATE TRIGGER entry_gone AFTER DELETE ON entries BEGIN
        UPDATE meta SET value = value - LENGTH(OLD.document) WHERE name = '{KEPT}'; END""",
    f"""CREATE TRIGGER blob_kept AFTER INSERT ON entry_blobs
        WHEN (SELECT COUNT(*) FROM entry_blobs WHERE blob = NEW.blob) = 1 BEGIN
        UPDATE meta SET value = value + NEW.size_bytes WHERE name = '{KEPT}'; END""",
    f"""CREATE TRIGGER blob_gone AFTER DELETE ON entry_blobs
        WHEN NOT EXISTS (SELECT 1 FROM entry_blobs WHERE blob = OLD.blob) BEGIN
        UPDATE meta SET value = value - OLD.size_bytes WHERE name = '{KEPT}'; END""",
)


def _migrate(engine: Engine) -> None:
    """Bring a new or older index to this version; raises Refused for one of a later version."""
    with engine.connect() as connection:
        if _version(connection) == VERSION:
            return
        connection.execute(text("BEGIN IMMEDIATE"))
        # Another process may have made the tables since.
        if _version(connection) < VERSION:
            metadata.create_all(connection)
            for statement in _COUNTING:
                connection.execute(text(statement))
            connection.execute(text(f"PRAGMA user_version = {VERSION}"))
        connection.commit()


def _readable(path: Path) -> Engine:
    """The index as it stands, for reading; an empty one if there is none."""
    if not path.exists():
        return _nothing()
    engine = _engine(path, writable=False)
    with _translated(path), engine.connect() as connection:
        return engine if _version(connection) == VERSION else _nothing()


def _version(connection: Connection) -> int:
    version: int = connection.execute(text("PRAGMA user_version")).scalar_one()
    if version > VERSION:
        raise Refused(f"the store's index has version {version}, this Restrike knows {VERSION}; upgrade it")
    return version


@cache
def _nothing() -> Engine:
    """An empty index in memory, for a store that does not exist yet."""
    engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    metadata.create_all(engine)
    return engine


_engines: WeakSet[Engine] = WeakSet()


def _forget_connections() -> None:
    """A forked child must not use, nor close, its parent's connections."""
    for engine in list(_engines):
        engine.dispose(close=False)


os.register_at_fork(after_in_child=_forget_connections)


_AS_IT_STANDS = {"immutable": "1", "uri": "true"}


def _engine(path: Path, *, writable: bool) -> Engine:
    # Connections stay open: closing the last one of a process would write the whole log back each time.
    # A folder that cannot be written has no room for the log's index: the file is read as it stands.
    # By parts, not as a text: a path may hold what has a meaning in an address.
    name, query = (str(path), {}) if writable else (f"file:{quote(str(path))}", _AS_IT_STANDS)
    address = URL.create("sqlite", database=name, query=query)
    engine = create_engine(address, connect_args={"timeout": BUSY_TIMEOUT_S, "check_same_thread": False})
    _engines.add(engine)

    @event.listens_for(engine, "connect")
    def configure(connection: object, _record: object) -> None:
        connection.isolation_level = None  # type: ignore[attr-defined]  # transactions are begun by hand
        cursor = connection.cursor()  # type: ignore[attr-defined]
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute("PRAGMA synchronous = NORMAL")
        if writable:
            cursor.execute("PRAGMA journal_mode = WAL")
        cursor.close()

    return engine


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Give SQLite's failures their place in the failure tree."""
    try:
        yield
    except IntegrityError:
        raise
    except DatabaseError as error:
        code = getattr(error.orig, "sqlite_errorname", "")
        kind = next((kind for codes, kind in _KINDS if code.startswith(codes)), Crashed)
        raise kind(f"the store's index '{path.name}': {error.orig}") from error


def _file_at(path: Path) -> tuple[int, int] | None:
    """Which file lies at a path, so that one is told from a later one of the same name."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _set_aside(path: Path) -> None:
    aside = path.parent / "quarantine"
    aside.mkdir(parents=True, exist_ok=True)
    stamp = time.time_ns()
    for suffix in ("", "-wal", "-shm"):
        torn = path.with_name(path.name + suffix)
        with suppress(FileNotFoundError):
            os.replace(torn, aside / f"{torn.name}-{stamp}")
