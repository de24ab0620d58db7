"""The schema of the interface, tried with values made from it: no answer is a fault of the server's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error

from restrike.server.app import create_app
from restrike.server.database.connect import Database
from restrike.server.place import Place
from restrike.server.service import Service
from restrike.settings import settings as chosen

_STREAMS = r"/events$|^/v1/|^/api/assets/fetch$"
"""Streams have no end, OpenAI's shapes wait for a worker, and there is no open internet here."""


@pytest.fixture(scope="module")
def interface(tmp_path_factory: pytest.TempPathFactory) -> Iterator[schemathesis.BaseSchema]:
    folder = tmp_path_factory.mktemp("schema")
    place = Place(folder=folder / "data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RESTRIKE_STORE", str(Path(folder) / "store"))
        chosen.cache_clear()
        place.make()
        database = Database(place.database_url)
        database.migrate()
        app = create_app(Service(place=place, database=database))
        yield schemathesis.openapi.from_asgi("/openapi.json", app, headers={"host": "localhost"})
        database.close()
    chosen.cache_clear()


def test_no_answer_is_a_fault_of_the_server(interface: schemathesis.BaseSchema) -> None:
    tried = 0
    for found in interface.exclude(path_regex=_STREAMS).get_all_operations():
        operation = found.ok()

        @settings(
            max_examples=6,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def attempt(case: schemathesis.Case) -> None:
            case.call_and_validate(headers={"host": "localhost"}, checks=[not_a_server_error])

        attempt()
        tried += 1
    assert tried > 40


def test_every_operation_is_described(interface: schemathesis.BaseSchema) -> None:
    for path, operations in interface.raw_schema["paths"].items():
        for verb, operation in operations.items():
            assert operation.get("summary"), (verb, path)
            assert operation.get("description"), (verb, path)
