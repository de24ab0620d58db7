"""A service with a database of its own and no workers, and a client of its application."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from restrike.server.app import create_app
from restrike.server.database.connect import Database
from restrike.server.place import Place
from restrike.server.service import Service
from restrike.settings import settings


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setenv("RESTRIKE_STORE", str(tmp_path / "store"))
    settings.cache_clear()
    place = Place(folder=tmp_path / "data")
    place.make()
    database = Database(place.database_url)
    database.migrate()
    yield Service(place=place, database=database)
    database.close()
    settings.cache_clear()


@pytest.fixture
def client(service: Service) -> Iterator[TestClient]:
    with TestClient(create_app(service), base_url="http://localhost", raise_server_exceptions=False) as found:
        yield found
