"""Databases for the tests of the server: SQLite in a file, and a real PostgreSQL where it is installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from restrike.server.database.connect import Database, sqlite_url
from server.postgresql import PostgreSQL, postgresql_server


@pytest.fixture(scope="session")
def postgresql_here() -> Iterator[PostgreSQL]:
    """A PostgreSQL server for all tests of a run, without a database of ours in it."""
    with postgresql_server() as server:
        yield server


@pytest.fixture(scope="session")
def postgresql(postgresql_here: PostgreSQL) -> str:
    """Its address."""
    return postgresql_here.url


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An empty database, once of each kind."""
    if request.param == "sqlite":
        url = sqlite_url(tmp_path / "server.sqlite")
    else:
        url = request.getfixturevalue("postgresql_here").fresh(tmp_path.name)
    found = Database(url)
    found.migrate()
    yield found
    found.close()
