"""One real server with endpoints of an operator's own, and an application without workers that knows them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from restrike.client.client import Client
from restrike.server.app import create_app
from restrike.server.database.connect import Database
from restrike.server.endpoints.catalogue import Catalogue, catalogue
from restrike.server.place import Place
from restrike.server.service import Service
from restrike.settings import settings
from serving import Server, served

STUDIO = Path(__file__).with_name("studio.py")


@pytest.fixture(scope="session")
def known() -> Catalogue:
    """What is known of the studio, whose slot the server fills."""
    return catalogue([str(STUDIO)], {"pipeline": "digits"})


@pytest.fixture
def service(known: Catalogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setenv("RESTRIKE_STORE", str(tmp_path / "store"))
    settings.cache_clear()
    place = Place(folder=tmp_path / "data")
    place.make()
    database = Database(place.database_url)
    database.migrate()
    yield Service(place=place, database=database, catalogue=known)
    database.close()
    settings.cache_clear()


@pytest.fixture
def asked(service: Service) -> Iterator[TestClient]:
    """A client of an application without workers."""
    with TestClient(create_app(service), base_url="http://localhost", raise_server_exceptions=False) as found:
        yield found


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real server with the studio; where its code is imported, it leaves a trace."""
    folder = tmp_path_factory.mktemp("studio")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRACES", str(folder / "traces"))
        options = ("--devices", "cpu:0", "--endpoints", str(STUDIO), "--slot", "pipeline=digits")
        with served(folder / "data", *options) as found:
            yield found


@pytest.fixture
def client(server: Server) -> Client:
    return Client(server.url)
