"""The endpoints that a worker has loaded: kept between calls, given up for other slots, never other code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from restrike.endpoints.discovery import look_at
from restrike.endpoints.places import find_place
from restrike.endpoints.serving import Asked
from restrike.endpoints.slots import UnfilledSlot
from restrike.errors import NotFound, Refused, Unknown
from restrike.server.endpoints.origin import Origin
from restrike.server.worker.servings import Servings

TEXT = """
from pydantic import BaseModel

import restrike

LOG = []


class Nothing(BaseModel):
    pass


@restrike.endpoint(slots={"pipeline": restrike.Slot()})
class Kept:
    def setup(self, ctx):
        LOG.append("up")

    def said(self, ctx, payload: Nothing):
        return [ctx.slots["pipeline"].card.name, *LOG]

    def shutdown(self):
        LOG.append("down")
        raise OSError("it does not matter")
"""


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    path = tmp_path / "kept.py"
    path.write_text(TEXT + f"\n# {tmp_path}\n")
    place = find_place(str(path))
    assert place is not None
    return Origin(
        name="Kept", place=f"{path}:Kept", source=look_at(place).source, slots={"pipeline": "digits"}
    )


def servings(*origins: Origin) -> Servings:
    """Those of a worker without an engine, which nothing here asks for a picture."""
    engine: Any = None
    return Servings(origins=origins, engine=lambda: engine, compiles=False)


def said(found: Servings, **slots: str) -> Any:
    return found.serving("Kept", slots).call({}, Asked(handler="said", seed=1)).value


def test_it_is_set_up_once_and_again_for_other_slots(origin: Origin) -> None:
    found = servings(origin)
    assert said(found) == ["digits", "up"]
    assert said(found) == ["digits", "up"]
    assert said(found, pipeline="shapes") == ["shapes", "up", "down", "up"]
    assert said(found) == ["digits", "up", "down", "up", "down", "up"]
    found.close()


def test_code_that_changed_is_not_run(origin: Origin, tmp_path: Path) -> None:
    assert said(servings(origin)) == ["digits", "up"]
    with (tmp_path / "kept.py").open("a") as file:
        file.write("LOG.append('changed')\n")
    with pytest.raises(Refused, match="changed since the server started"):
        said(servings(origin))
    (tmp_path / "kept.py").unlink()
    with pytest.raises(NotFound) as told:
        said(servings(origin))
    assert str(told.value) == "the code of endpoint 'Kept' is gone; restart the server"


def test_what_is_not_served_is_unknown(origin: Origin) -> None:
    with pytest.raises(Unknown, match="unknown endpoint 'Kep', did you mean 'Kept'"):
        servings(origin).serving("Kep", {})
    with pytest.raises(UnfilledSlot):
        said(servings(replace(origin, slots={})))


def test_a_card_is_an_endpoint(origin: Origin) -> None:
    assert servings(origin).serving("digits", {}).endpoint.name == "digits"
