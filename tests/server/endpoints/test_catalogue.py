"""What is served: found and checked when a server starts, without a line of it run in the server."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from restrike.errors import Crashed, NotFound, Refused, Shortfall, Unknown
from restrike.server.endpoints import looking
from restrike.server.endpoints.catalogue import Catalogue, catalogue
from restrike.server.endpoints.origin import Origin, origin_of

SMALL = """
from pydantic import BaseModel

import restrike


class Ask(BaseModel):
    steps: int = 3


@restrike.endpoint(slots={"pipeline": restrike.Slot(tasks=("text-to-image",))})
def small(ctx: restrike.Context, payload: Ask) -> int:
    return payload.steps
"""


def written(folder: Path, text: str, name: str = "small.py") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_the_operators_and_the_cards_are_served(known: Catalogue) -> None:
    assert [each.name for each in known.all()] == ["Studio", "look", "painted", "digits", "shapes"]
    studio = known.served("Studio")
    assert studio.handlers == (
        "deaf",
        "die",
        "draw",
        "fail",
        "fork",
        "litter",
        "odd",
        "quit",
        "repaint",
    )
    assert studio.request_schema("draw")["properties"]["steps"]["maximum"] == 1000
    assert known.served("digits").is_card


def test_looking_imports_nothing_of_it_here(known: Catalogue) -> None:
    assert known.looked
    assert not [name for name in sys.modules if name.startswith("restrike_seen_studio")]


def test_a_name_picks_one_of_a_file(tmp_path: Path) -> None:
    text = SMALL + SMALL.partition("\n\n\n@")[2].join(("\n\n@", "")).replace("def small", "def other")
    path = written(tmp_path, text)
    assert [each.name for each in catalogue([path], {}).looked] == ["small", "other"]
    assert [each.name for each in catalogue([f"{path}:other"], {}).looked] == ["other"]
    assert len(catalogue([path, f"{path}:other"], {}).looked) == 2


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("1 / 0\n", Crashed, "'broken.py', line 1, fails on import: ZeroDivisionError"),
        ("import restrike\n", NotFound, "declares no endpoint"),
        (SMALL.replace("text-to-image", "text-to-nothing"), Refused, "text-to-nothing"),
        ("import os\nos._exit(3)\n", Crashed, "ended its process with status 3"),
        ("print('{')\nraise SystemExit(5)\n", Crashed, "SystemExit"),
    ],
)
def test_a_broken_one_is_named(tmp_path: Path, text: str, kind: type[Exception], message: str) -> None:
    path = written(tmp_path, text, "broken.py")
    with pytest.raises(kind) as told:
        catalogue([path], {})
    assert message in str(told.value)
    assert path in str(told.value)


def test_what_prints_on_import_is_understood_all_the_same(tmp_path: Path) -> None:
    path = written(tmp_path, "print('hello')\n" + SMALL)
    assert catalogue([path], {}).looked[0].name == "small"


def test_one_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "PATIENCE_S", 0.5)
    path = written(tmp_path, "import time\ntime.sleep(60)\n")
    with pytest.raises(Shortfall, match="took longer than"):
        catalogue([path], {})


def test_what_is_installed_is_served_under_its_registered_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, SMALL, "packaged_endpoints.py")
    about = tmp_path / "packaged-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: packaged\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[restrike.endpoints]\ntiny.one = packaged_endpoints:small\n")
    assert catalogue([], {}).looked == ()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (found,) = catalogue([], {}).looked
    assert (found.name, found.place) == ("tiny.one", "tiny.one")
    again = catalogue(["tiny.one"], {"pipeline": "digits"})
    assert [each.name for each in again.looked] == ["tiny.one"]


def test_two_of_one_name_are_refused(tmp_path: Path) -> None:
    one = written(tmp_path, SMALL)
    other = written(tmp_path, SMALL + "\n\nMORE = 1\n", "other.py")
    with pytest.raises(Refused, match="'small' is served from"):
        catalogue([one, other], {})
    with pytest.raises(Refused, match="a card is called 'digits' too"):
        catalogue([written(tmp_path, SMALL.replace("def small", "def digits"), "card.py")], {})


def test_slots_are_held_against_what_they_are_for(tmp_path: Path) -> None:
    path = written(tmp_path, SMALL)
    found = catalogue([path], {"pipeline": "digits"})
    assert found.origins == (
        Origin(
            name="small", place=f"{path}:small", source=found.looked[0].source, slots={"pipeline": "digits"}
        ),
    )
    assert origin_of(found.origins[0].text()) == found.origins[0]
    written(tmp_path, SMALL.replace("text-to-image", "text-to-video"))
    with pytest.raises(Refused, match="text-to-video, which card 'digits' does not do"):
        catalogue([path], {"pipeline": "digits"})
    with pytest.raises(Unknown, match="unknown slot 'pipelin', did you mean 'pipeline'"):
        catalogue([path], {"pipelin": "digits"})


def test_a_slot_that_stays_empty_is_warned_of(tmp_path: Path) -> None:
    path = written(tmp_path, SMALL)
    (warning,) = catalogue([path], {}).warnings
    assert warning.startswith("endpoint 'small': slot 'pipeline' is empty")
    assert "--slot pipeline=CARD" in warning
    # Control: one that is filled, by the operator or by its default, is fine.
    assert catalogue([path], {"pipeline": "digits"}).warnings == ()
    written(tmp_path, SMALL.replace('("text-to-image",)', '("text-to-image",), default="digits"'))
    assert catalogue([path], {}).warnings == ()


def test_the_state_of_a_lock_is_told(tmp_path: Path) -> None:
    from restrike.endpoints.discovery import look_at
    from restrike.endpoints.lock import write_lock
    from restrike.endpoints.places import find_place

    path = written(tmp_path, SMALL)
    assert catalogue([path], {}).looked[0].lock.state == "none"
    place = find_place(path)
    assert place is not None
    lock = write_lock(look_at(place))
    assert catalogue([path], {}).looked[0].lock.state == "held"
    written(tmp_path, SMALL.replace("return payload.steps", "return payload.steps + 1"))
    stale = catalogue([path], {}).looked[0].lock
    assert (stale.state, stale.findings) == ("stale", ("changed in source",))
    lock.write_text("{")
    assert catalogue([path], {}).looked[0].lock.state == "torn"
