"""Cells that must not serve: each refused by its own name, set aside if at fault, and eager serves."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.driving import bytes_of
from mint.cells import Making
from mint.rewriting import Parts
from restrike.engine.engine import Engine
from restrike.errors import Refused
from restrike.mint.adoption import adoption, trial
from restrike.mint.adoption.adoption import Adoption
from restrike.mint.adoption.cells import Cells
from restrike.mint.adoption.refusal import AdoptionRefusal
from restrike.mint.adoption.tried import Tried
from restrike.mint.cell.host import cpu_target, this_host
from restrike.mint.cell.keyring import Keyring
from restrike.mint.cell.manifest import Proof
from restrike.mint.store.store import CellStore

from . import forging
from .conftest import SEVEN
from .forging import forged, key_in, twin

Adopting = Callable[..., Engine]


def refused(engine: Engine, eager: Engine) -> str:
    """The one reason for which the digits' cell is not armed; eager serves, bit for bit, and it is told."""
    table = engine.load("digits").compiled
    assert table.counters.armed == 0
    (reason,) = table.counters.refused
    made = engine.generate("digits", SEVEN)
    assert made.compiled.executed == 0
    assert any(f"cell transformer 8x8-batched is not used, {reason}" in line for line in made.notices)
    assert bytes_of(engine, SEVEN) == bytes_of(eager, SEVEN)
    return reason


FORGERIES: list[tuple[str, dict[str, Any], bool]] = [
    ("out of tolerance", {"code": forging.other_literal}, True),
    ("died when it was tried", {"code": forging.deadly}, True),
    ("failed when it was tried", {"facts": forging.without_constant}, True),
    ("failed when it was tried", {"facts": forging.with_renamed}, True),
]


@pytest.mark.parametrize(("reason", "change", "is_set_aside"), FORGERIES)
def test_a_trusted_cell_that_is_not_what_it_says_is_found_out_before_it_serves(
    reason: str,
    change: dict[str, Any],
    is_set_aside: bool,
    kept: CellStore,
    adopting: Adopting,
    eager: Engine,
    tmp_path: Path,
) -> None:
    store = forged(kept, tmp_path / "forged", **change)
    assert refused(adopting(store), eager) == reason
    assert not store.has(key_in(kept)) if is_set_aside else store.has(key_in(kept))
    (aside,) = store.quarantined()
    assert aside.reason == reason
    # It is not tried again.
    assert adopting(store).load("digits").compiled.counters.refused == {}


@pytest.mark.parametrize(
    ("reason", "facts"),
    [
        ("extra constant", forging.without_constant),
        ("missing constant", forging.with_renamed),
        ("other constant", forging.with_other_form),
    ],
)
def test_every_constant_is_bound_and_none_that_is_not_declared(
    reason: str,
    facts: Any,
    kept: CellStore,
    adopting: Adopting,
    eager: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As if it had run here: a trial would find it out before.
    monkeypatch.setattr(Tried, "has", lambda record, header: True)
    assert refused(adopting(forged(kept, tmp_path / "forged", facts=facts)), eager) == reason


def test_a_cell_is_tried_once_on_a_machine_and_never_where_it_was_made(
    kept: CellStore, adopting: Adopting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials: list[str] = []
    run = trial.subprocess.run
    monkeypatch.setattr(trial.subprocess, "run", lambda *a, **k: trials.append(a[0][3]) or run(*a, **k))
    adopting(kept)
    assert not trials
    store = twin(kept, tmp_path / "elsewhere")
    shutil.rmtree(store.root / "tried")
    for _ in range(2):
        assert adopting(store).load("digits").compiled.counters.armed == 1
    assert trials == ["restrike.mint.adoption.trial"]


@pytest.mark.parametrize(
    ("code", "reason", "is_set_aside"),
    [
        (-9, "no room", False),
        (-15, "failed when it was adopted", False),
        (3, "no room", False),
        (1, "failed when it was tried", True),
        (-11, "died when it was tried", True),
    ],
)
def test_a_trial_that_ended_for_another_reason_is_not_held_against_the_cell(
    code: int,
    reason: str,
    is_set_aside: bool,
    kept: CellStore,
    adopting: Adopting,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = twin(kept, tmp_path / "elsewhere")
    shutil.rmtree(store.root / "tried")
    ended = trial.subprocess.CompletedProcess([], code)
    monkeypatch.setattr(trial.subprocess, "run", lambda *given, **options: ended)
    assert adopting(store).load("digits").compiled.counters.refused == {reason: 1}
    assert store.has(key_in(kept)) is not is_set_aside


def test_a_trial_that_no_process_could_be_started_for_is_not_held_against_the_cell(
    kept: CellStore, adopting: Adopting, eager: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = twin(kept, tmp_path / "elsewhere")
    shutil.rmtree(store.root / "tried")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-interpreter"))
    assert refused(adopting(store), eager) == "could not be tried"
    assert store.has(key_in(kept))


def test_what_is_not_faster_is_not_armed_and_stays_in_the_store(
    kept: CellStore, adopting: Adopting, eager: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    proof = Proof(max_difference=0.0, tolerance=1e-4, eager_s=0.001, cell_s=0.002)
    monkeypatch.setattr(adoption, "prove", lambda *given: proof)
    assert refused(adopting(kept), eager) == "not faster than eager"
    assert kept.has(key_in(kept))


def test_each_sort_of_wrong_cell_counts_once_under_its_reason(
    kept: CellStore, adopting: Adopting, tmp_path: Path
) -> None:
    store = twin(kept, tmp_path / "many")
    target, ring = cpu_target(), store.ring
    stack = this_host(target).stack("aot")
    good = Making(target=target, stack=stack)
    stranger = Keyring(tmp_path / "stranger")
    wrong: dict[str, tuple[Making, Any]] = {
        "cell of another call": (good, ring.signer()),
        "foreign architecture": (replace(good, target=replace(target, machine="aarch64")), ring.signer()),
        "newer CPU capability": (replace(good, target=replace(target, order=9)), ring.signer()),
        "other torch version": (replace(good, stack=replace(stack, torch="1.0")), ring.signer()),
        "other compile stack": (replace(good, stack=replace(stack, epoch="0")), ring.signer()),
        "untrusted key": (replace(good, stack=replace(stack, torch="0.9")), stranger.signer()),
        "unsigned": (replace(good, stack=replace(stack, torch="0.8")), None),
    }
    for index, (making, signer) in enumerate(wrong.values()):
        sealed = making.sealed(tmp_path / f"{index}.cell", signer)
        shutil.copy(sealed, store.path(Parts.of(sealed).key))
    cells = Cells(store, asked=True)
    found = cells.adopted(Engine(device="cpu", cells=cells).load("digits"))
    assert found is not None
    assert found.rejected == dict.fromkeys(wrong, 1)
    assert list(found.armed) == ["transformer 8x8-batched"]


def test_a_cell_that_was_damaged_in_the_store_is_set_aside_before_any_of_it_is_loaded(
    kept: CellStore, adopting: Adopting, eager: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = twin(kept, tmp_path / "damaged")
    path = store.path(key_in(kept))
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    from restrike.mint.recipes import aot

    monkeypatch.setattr(aot, "opened", lambda *given: pytest.fail("native code was loaded"))
    assert refused(adopting(store), eager) == "flipped bytes"
    assert [aside.reason for aside in store.quarantined()] == ["flipped bytes"]


def test_code_that_fails_while_it_serves_costs_no_request_and_is_never_asked_again(
    kept: CellStore, adopting: Adopting, eager: Engine, tmp_path: Path
) -> None:
    store = twin(kept, tmp_path / "fails")
    engine = adopting(store)
    table = engine.load("digits").compiled
    engine.generate("digits", SEVEN)
    calls = 0

    def broken(inputs: Any) -> torch.Tensor:
        nonlocal calls
        calls += 1
        raise RuntimeError("the code broke")

    (armed,) = table._table.values()
    assert armed.bound is not None
    armed.bound = replace(armed.bound, run=broken)
    assert bytes_of(engine, SEVEN) == bytes_of(eager, SEVEN)
    assert bytes_of(engine, SEVEN) == bytes_of(eager, SEVEN)
    assert calls == 1
    assert [aside.reason for aside in store.quarantined()] == [AdoptionRefusal.FAILED]


def test_a_fault_that_nobody_foresaw_in_the_last_bind_arms_nothing_and_touches_no_model(
    kept: CellStore, eager: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = twin(kept, tmp_path / "faulty")
    proved = Adoption._proved
    seen: list[str] = []

    def failing(self: Adoption, candidate: Any, ingress: Any) -> Any:
        found = proved(self, candidate, ingress)
        seen.append(found.call.label)
        if len(seen) == 2:
            raise ZeroDivisionError("nobody foresaw this")
        return found

    twice = Adoption._candidates
    monkeypatch.setattr(Adoption, "_candidates", lambda self, found: twice(self, found) * 2)
    monkeypatch.setattr(Adoption, "_proved", failing)
    engine = Engine(device="cpu", cells=Cells(store, asked=True))
    table = engine.load("digits").compiled
    assert len(seen) == 2
    assert [aside.reason for aside in store.quarantined()] == [AdoptionRefusal.FAILED]
    assert (table.counters.armed, table.counters.refused) == (0, {"failed when it was adopted": 1})
    assert bytes_of(engine, SEVEN) == bytes_of(eager, SEVEN)


def test_a_process_that_cannot_arm_says_so_by_the_name_of_the_block(
    kept: CellStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from restrike.mint.adoption import cells

    monkeypatch.setattr(cells, "_target_of", lambda device: replace(cpu_target(), order=9, cpu="AVX1024"))
    before = dict(os.environ)
    engine = Engine(device="cpu", cells=Cells(kept, asked=True))
    assert engine.load("digits").compiled.counters.refused == {"newer CPU capability": 1}
    # What arms nothing leaves nothing changed.
    assert dict(os.environ) == before
    with pytest.raises(Refused, match="must run compiled"):
        Engine(device="cpu", cells=Cells(kept, mode="require")).load("digits")
