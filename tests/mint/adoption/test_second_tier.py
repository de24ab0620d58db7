"""Cells in a second tier: fetched and armed, kept for the next start, refused by name; eager serves."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from restrike.engine.engine import Engine
from restrike.errors import Crashed
from restrike.keys import Digest
from restrike.mint.store.moving import push
from restrike.mint.store.store import CellStore
from restrike.mint.store.tier import Tier

from .conftest import SEVEN
from .forging import key_in

Adopting = Callable[..., Engine]


@pytest.fixture
def tier(kept: CellStore, tmp_path: Path) -> Tier:
    """A folder elsewhere that holds the digits' cell."""
    found = Tier(str(tmp_path / "tier"))
    push(kept, found, [key_in(kept)])
    return found


@pytest.fixture
def fresh(kept: CellStore, tmp_path: Path) -> CellStore:
    """A store without the cell, that trusts who made it and has seen the card's calls before."""
    store = CellStore(tmp_path / "fresh")
    store.ring.trust(kept.ring.signer().public, "made-there")
    for name in ("signposts", "tried"):
        shutil.copytree(kept.root / name, store.root / name)
    return store


def test_a_cell_is_fetched_and_armed_and_serves_the_next_start_without_the_tier(
    fresh: CellStore, kept: CellStore, tier: Tier, adopting: Adopting, tmp_path: Path
) -> None:
    assert adopting(fresh, tier=tier).generate("digits", SEVEN).compiled.executed == 4
    assert fresh.has(key_in(kept))
    shutil.rmtree(tmp_path / "tier")
    assert adopting(fresh, tier=tier).generate("digits", SEVEN).compiled.executed == 4


def reasons(engine: Engine) -> dict[str, int]:
    """Why cells are not armed; a picture is made all the same."""
    assert engine.generate("digits", SEVEN).compiled.executed == 0
    return dict(engine.load("digits").compiled.counters.refused)


def test_what_was_set_aside_here_is_not_fetched_again(
    fresh: CellStore, kept: CellStore, tier: Tier, adopting: Adopting
) -> None:
    adopting(fresh, tier=tier)
    fresh.quarantine(key_in(kept), "out of tolerance", "it was")
    assert reasons(adopting(fresh, tier=tier)) == {"was set aside before": 1}
    assert not fresh.has(key_in(kept))


def test_what_nobody_trusted_signed_is_refused_by_that_name(
    fresh: CellStore, kept: CellStore, tier: Tier, adopting: Adopting
) -> None:
    shutil.rmtree(fresh.root / "keys")
    assert reasons(adopting(fresh, tier=tier)) == {"untrusted key": 1}
    assert not fresh.has(key_in(kept))


def test_a_tier_that_is_out_of_reach_stands_in_no_requests_way(
    fresh: CellStore, adopting: Adopting, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    found = reasons(adopting(fresh, tier=Tier(str(tmp_path / "file"))))
    assert set(found) == {"the second tier is out of reach"}


def test_a_line_that_is_cut_while_a_cell_is_looked_for_is_told_as_that(
    fresh: CellStore, tier: Tier, adopting: Adopting, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(tier: Tier, key: Digest) -> bool:
        raise Crashed("the line is cut")

    monkeypatch.setattr(Tier, "has", cut)
    assert set(reasons(adopting(fresh, tier=tier))) == {"the second tier is out of reach"}
