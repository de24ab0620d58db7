"""Databases for the tests of the server: SQLite in a file, and a real PostgreSQL where it is installed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from restrike.server.database.connect import Database, sqlite_url


def _programs() -> Path | None:
    """The folder of PostgreSQL's own programs, the newest that is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


def _as_postgres(*command: str | Path) -> None:
    # PostgreSQL refuses to run as root.
    whoever = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    subprocess.run([*whoever, *map(str, command)], check=True, capture_output=True)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The address of a PostgreSQL server of this test run, without a database of ours in it."""
    programs = _programs()
    if programs is None:
        # A check that nobody looks at must not leave out half of the tests in silence.
        if os.environ.get("CI"):
            pytest.fail("PostgreSQL is not installed; the workflow of the checks installs it")
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="restrike-postgresql-"))
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    data = folder / "data"
    _as_postgres(programs / "initdb", "-D", data, "-U", "restrike", "--auth=trust", "-N")
    options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={folder}"
    _as_postgres(programs / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start")
    try:
        yield f"postgresql+psycopg://restrike@127.0.0.1:{port}"
    finally:
        _as_postgres(programs / "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An empty database, once of each kind."""
    if request.param == "sqlite":
        url = sqlite_url(tmp_path / "server.sqlite")
    else:
        url = _fresh(request.getfixturevalue("postgresql"), tmp_path.name)
    found = Database(url)
    found.migrate()
    yield found
    found.close()


def _fresh(server: str, name: str) -> str:
    import psycopg

    plain = server.replace("+psycopg", "")
    safe = "".join(letter if letter.isalnum() else "_" for letter in name.lower())
    with psycopg.connect(f"{plain}/postgres", autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{safe}"')  # pyright: ignore[reportArgumentType]
    return f"{server}/{safe}"
