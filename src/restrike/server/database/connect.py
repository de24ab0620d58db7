"""Opens a server's database: SQLite in a file, or PostgreSQL by its address; brings its tables up to date.

Every write is one transaction that is on the disk when it returns. No rule of the queue lives here.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    NoSuchModuleError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from restrike.errors import Crashed, Refused, RestrikeError, Shortfall

BUSY_TIMEOUT_S = 30
# Any constant will do, as long as all servers of a database use it: it orders those who write events.
_WRITERS = 8420
_PASSING = ("SQLITE_FULL", "SQLITE_BUSY", "SQLITE_IOERR", "SQLITE_NOMEM")
_BARRED = ("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_NOTADB")
# PostgreSQL's classes of states: connections, resources, shutting down or starting, a system's own fault.
_AWAY = ("08", "53", "57P", "58")
_log = logging.getLogger(__name__)
_MIGRATIONS = Path(__file__).parent / "migrations"


def sqlite_url(path: Path) -> str:
    """The address of a SQLite file."""
    return f"sqlite:///{path}"


class Database:
    """One database, shared by the server's process and its workers."""

    def __init__(self, url: str) -> None:
        """Opens nothing yet; raises Refused for an address that is none."""
        try:
            self._engine = _engine(url)
        except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
            raise Refused(
                f"database '{_shown(url)}': {error}; give sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME"
            ) from error
        self._file: tuple[int, int] | None = None
        self.shown = _shown(url)
        """The address without its password."""
        self.is_sqlite = self._engine.dialect.name == "sqlite"

    def migrate(self) -> None:
        """Make the tables, or bring those of an older version up to date; those that are take no lock.

        Raises:
            Refused: the database cannot be opened, or was made by a later version.
        """
        config = Config()
        config.set_main_option("script_location", str(_MIGRATIONS))
        scripts = ScriptDirectory.from_config(config)
        head = scripts.get_current_head()
        with self._translated(), self._engine.connect() as connection:
            # A worker that is frozen in a transaction holds the lock, and the server that ends it starts so.
            found = MigrationContext.configure(connection).get_current_revision()
            if found == head:
                return
            self._check_known(found, scripts)
            connection.rollback()
            self._lock_out_writers(connection)
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            connection.commit()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection that sees what was committed."""
        with self._untold(), self._translated(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that no other writer comes between, so that events are read in their order."""
        with self._untold(), self._translated(), self._engine.connect() as connection:
            self._lock_out_writers(connection)
            try:
                yield connection
                self._check_kept()
            except BaseException:
                connection.rollback()
                raise
            connection.commit()

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def _check_known(self, revision: str | None, scripts: ScriptDirectory) -> None:
        if revision not in (None, *(script.revision for script in scripts.walk_revisions())):
            raise Refused(
                f"database '{self.shown}' was made by a later version of Restrike (tables {revision}); "
                "run that version, or give another database"
            )

    def _lock_out_writers(self, connection: Connection) -> None:
        if self.is_sqlite:
            connection.execute(text("BEGIN IMMEDIATE"))
        else:
            connection.execute(text("SELECT pg_advisory_xact_lock(:name)"), {"name": _WRITERS})

    def _check_kept(self) -> None:
        """Refuse to write to a file that has lost its name: nobody would find it again after a restart."""
        name = self._engine.url.database if self.is_sqlite else None
        if name is None or name == ":memory:":
            return
        try:
            status = os.stat(name)
        except OSError as error:
            raise Crashed(
                f"database '{self.shown}' was removed; stop the server and bring it back"
            ) from error
        found = (status.st_dev, status.st_ino)
        self._file = self._file or found
        if found != self._file:
            raise Crashed(f"database '{self.shown}' was replaced; start the server again")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Give a database's failures their place in the failure tree."""
        try:
            yield
        except SQLAlchemyError as error:
            raise _failure(error, f"database '{self.shown}'") from error

    @contextmanager
    def _untold(self) -> Iterator[None]:
        """Keep where a database server is, and who asks it, from those who only wait for an answer.

        The whole message is for the log: a file's place is known to whoever takes the folders out of answers.
        """
        try:
            yield
        except RestrikeError as error:
            cause = error.__cause__
            if self.is_sqlite or not isinstance(cause, SQLAlchemyError):
                raise
            _log.warning("%s", error.message)
            raise type(error)(f"the database {_reason(cause)}") from error


def _failure(error: SQLAlchemyError, where: str) -> RestrikeError:
    """A failure of the database, or of its pool of connections, by what can change it."""
    if isinstance(error, PoolTimeoutError):
        return Shortfall(f"{where}: all its connections were busy for long; ask again later")
    if not isinstance(error, DBAPIError):
        return Crashed(f"{where}: {' '.join(str(error).split())}")
    message = f"{where}: {' '.join(str(error.orig).split())}"
    if isinstance(error, DataError):
        return Refused(message)  # a text that it cannot hold, such as one with NUL
    # The name of SQLite is a longer one where it knows more: SQLITE_IOERR_WRITE, SQLITE_READONLY_DBMOVED.
    code = getattr(error.orig, "sqlite_errorname", "")
    if code.startswith(_PASSING) or error.connection_invalidated or _is_away(error):
        return Shortfall(message)
    return Refused(message) if code.startswith(_BARRED) else Crashed(message)


def _reason(error: SQLAlchemyError) -> str:
    """What PostgreSQL itself says of a failure, which names no address; else only that there is one."""
    if isinstance(error, PoolTimeoutError):
        return "has no connection free; ask again later"
    if not isinstance(error, DBAPIError):
        return "failed; the server's log says how"
    if _is_away(error) or error.connection_invalidated:
        return "cannot be reached; ask again later"
    said = getattr(getattr(error.orig, "diag", None), "message_primary", None)
    return f"answered: {said}" if said else "failed; the server's log says how"


def _is_away(error: DBAPIError) -> bool:
    """Whether a PostgreSQL server cannot be reached, ends or begins; SQLite is never away."""
    state = getattr(error.orig, "sqlstate", "") or ""
    connects = isinstance(error, OperationalError) and error.statement is None and not state
    return state.startswith(_AWAY) or (connects and not hasattr(error.orig, "sqlite_errorname"))


def _engine(url: str) -> Engine:
    address = make_url(url)
    if address.get_backend_name() != "sqlite":
        return create_engine(address, pool_pre_ping=True)
    engine = create_engine(address, connect_args={"timeout": BUSY_TIMEOUT_S, "check_same_thread": False})

    @event.listens_for(engine, "connect")
    def configure(connection: object, _record: object) -> None:
        connection.isolation_level = None  # type: ignore[attr-defined]  # transactions are begun by hand
        cursor = connection.cursor()  # type: ignore[attr-defined]
        cursor.execute("PRAGMA journal_mode = WAL")
        # A job that was accepted survives a power cut, not only a kill.
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()

    return engine


def _shown(url: str) -> str:
    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return url
