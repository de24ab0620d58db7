"""The server's own folders are told by their words; no other text is changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from restrike.server.security.redaction import Redaction

DATA = Path("/srv/restrike/data")


@pytest.fixture
def redaction() -> Redaction:
    return Redaction({"data": DATA, "workspace default": DATA / "workspaces" / "default"})


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("no permission: /srv/restrike/data", "no permission: data"),
        ("'/srv/restrike/data/x.png' is gone.", "'data/x.png' is gone."),
        ("it lies in /srv/restrike/data.", "it lies in data."),
        ("sqlite:////srv/restrike/data/a.sqlite", "sqlite:///data/a.sqlite"),
        ("a:/srv/restrike/data,/srv/restrike/data/b", "a:data,data/b"),
        ("/srv/restrike/data/workspaces/default/a", "workspace default/a"),
    ],
)
def test_a_folder_becomes_its_word(redaction: Redaction, said: str, told: str) -> None:
    assert redaction.text(said) == told


@pytest.mark.parametrize(
    "said",
    [
        "/srv/restrike/database",
        "/srv/restrike/data-2/x",
        "/srv/restrike/data.old/x",
        "/mnt/srv/restrike/data",
        "x/srv/restrike/data",
    ],
)
def test_a_part_of_a_longer_name_is_no_folder(redaction: Redaction, said: str) -> None:
    assert redaction.text(said) == said


def test_all_of_a_tree_is_looked_at(redaction: Redaction) -> None:
    tree = {"a": [f"{DATA}/x", 3], "b": (None, {"c": str(DATA)})}
    assert redaction.shown(tree) == {"a": ["data/x", 3], "b": [None, {"c": "data"}]}
