"""A database's failures have their place in the failure tree: what passes, what is barred, what is wrong."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from restrike.errors import Crashed, NotFound, Refused, RestrikeError, Shortfall
from restrike.server.database import connect
from restrike.server.database.connect import Database, sqlite_url
from restrike.server.jobs.queue import Queue


def test_a_text_that_no_database_can_hold_is_no_crash(database: Database) -> None:
    # SQLite holds it and finds no job of that name.
    with pytest.raises((Refused, NotFound)):
        Queue(database).job("job-\0")


def test_a_database_that_is_away_passes() -> None:
    # Nothing listens there; port 1 is nobody's.
    with pytest.raises(Shortfall), Database("postgresql+psycopg://restrike@127.0.0.1:1/none").read():
        pass


def test_where_a_database_is_and_who_asks_it_is_for_the_log_alone(
    postgresql: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    port = postgresql.rpartition(":")[2]
    for url, said in (
        ("postgresql+psycopg://somebody@127.0.0.1:1/none", "cannot be reached"),
        (f"{postgresql}/none", "cannot be reached"),
        (f"postgresql+psycopg://somebody@127.0.0.1:{port}/postgres", "cannot be reached"),
        (f"{postgresql}/postgres", "no_such_table"),
    ):
        caplog.clear()
        asked = Database(url)
        with pytest.raises(RestrikeError) as failed, asked.read() as connection:
            connection.execute(text("SELECT 1 FROM no_such_table"))
        asked.close()
        assert said in failed.value.message
        for word in ("127.0.0.1", port, "somebody", "psycopg"):
            assert word not in failed.value.message
        assert "127.0.0.1" in caplog.text
    # Control: whoever starts a server is told which database it is.
    with pytest.raises(Shortfall, match=r"127\.0\.0\.1"):
        Database("postgresql+psycopg://somebody@127.0.0.1:1/none").migrate()


def test_a_database_of_a_later_version_is_refused_in_one_line(database: Database) -> None:
    with database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(Refused, match="made by a later version of Restrike") as failed:
        database.migrate()
    assert "9999" in failed.value.message
    # Control: nothing of it was changed, and its own version goes on with it.
    with database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    database.migrate()


def test_a_file_that_was_moved_away_is_no_crash(tmp_path: Path) -> None:
    with pytest.raises(Refused), Database(sqlite_url(tmp_path / "nowhere" / "x.sqlite")).read():
        pass


def test_what_is_not_understood_is_a_crash(database: Database) -> None:
    with pytest.raises(Crashed), database.read() as connection:
        connection.execute(text("SELECT 1 FROM no_such_table"))


@pytest.fixture
def small_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    url = sqlite_url(tmp_path / "small.sqlite")
    monkeypatch.setattr(
        connect, "_engine", lambda _: create_engine(url, pool_size=1, max_overflow=0, pool_timeout=0.05)
    )
    found = Database(url)
    yield found
    found.close()


def test_connections_that_are_all_busy_are_a_shortfall(small_pool: Database) -> None:
    with small_pool.read(), pytest.raises(Shortfall, match="busy"), small_pool.read():
        pass


def test_nothing_is_accepted_into_a_file_that_was_removed_or_replaced(tmp_path: Path) -> None:
    file = tmp_path / "server.sqlite"
    database = Database(sqlite_url(file))
    database.migrate()
    with database.write():
        pass
    file.rename(tmp_path / "away")
    with pytest.raises(Crashed, match="was removed"), database.write():
        pass
    file.write_bytes((tmp_path / "away").read_bytes())
    with pytest.raises(Crashed, match="was replaced"), database.write():
        pass
    database.close()
