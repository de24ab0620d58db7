"""A PostgreSQL server of a test run's own, from what is installed: begun, killed, begun anew, removed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class PostgreSQL:
    """One server; its data lie in a folder that ends with it."""

    programs: Path
    folder: Path
    port: int

    @property
    def url(self) -> str:
        """Its address, without a database of ours."""
        return f"postgresql+psycopg://restrike@127.0.0.1:{self.port}"

    def begin(self) -> None:
        """Start it, and return when it takes connections."""
        options = (
            f"-c listen_addresses=127.0.0.1 -c port={self.port} -c unix_socket_directories={self.folder}"
        )
        self._control("-l", self.folder / "log", "-o", options, "start")

    def kill(self) -> None:
        """End it at once, as a machine that fails does: it has to recover at its next start."""
        self._control("-m", "immediate", "stop")

    def _control(self, *words: str | Path) -> None:
        _as_postgres(self.programs / "pg_ctl", "-D", self.folder / "data", "-w", *words)

    def fresh(self, name: str) -> str:
        """The address of a new database."""
        import psycopg

        safe = "".join(letter if letter.isalnum() else "_" for letter in name.lower())
        plain = self.url.replace("+psycopg", "")
        with psycopg.connect(f"{plain}/postgres", autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{safe}"'.encode())
        return f"{self.url}/{safe}"


@contextmanager
def postgresql_server() -> Iterator[PostgreSQL]:
    """A server for a block; skips the test where PostgreSQL is not installed, and fails it if that is CI."""
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
    server = PostgreSQL(programs, folder, port)
    try:
        _as_postgres(programs / "initdb", "-D", folder / "data", "-U", "restrike", "--auth=trust", "-N")
        server.begin()
        try:
            yield server
        finally:
            server.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path | None:
    """The folder of PostgreSQL's own programs, the newest that is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


def _as_postgres(*command: str | Path) -> None:
    # PostgreSQL refuses to run as root.
    whoever = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    subprocess.run([*whoever, *map(str, command)], check=True, capture_output=True)
