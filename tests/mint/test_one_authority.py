"""What a card's targets are and whether they can be armed is asked at one place, by all who want to know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Restrike
from cli.conftest import restrike as restrike  # the fixture, here as there
from restrike.cards import registry
from restrike.engine.engine import Engine
from restrike.mint import targets
from restrike.mint.adoption.cells import Cells
from restrike.mint.refusals import NoSuchTarget, Subject
from restrike.mint.request import slot_of
from restrike.mint.store.store import CellStore
from restrike.mint.targets import ArmingBlock, Block

from .children import Bench

FILE = """
import restrike
from pydantic import BaseModel

class Ask(BaseModel):
    prompt: str = "a seven"

@restrike.endpoint(slots={"pipeline": restrike.Slot()}, compile=restrike.Compiled())
def digit(ctx: restrike.Context, payload: Ask):
    return ctx.slots["pipeline"].generate(payload.prompt).seed
"""


def prepared(bench: Bench) -> tuple[str, str]:
    """How a mint of the digits ends before any work, and what it says."""
    ending = bench.here("digits", slot=slot_of(registry.card("digits")), keys_only=True).ending
    return ending.kind, ending.message


def adopted(store: CellStore) -> str:
    """What an adoption of the digits' cells says; nothing where it has nothing to say."""
    table = Engine(device="cpu", cells=Cells(store, asked=True)).load("digits").compiled
    return " ".join(table.unarmed())


def checked(restrike: Restrike, folder: Path) -> tuple[int, str]:
    """How `restrike endpoints check` of an endpoint that compiles the digits ends, and what it says."""
    (folder / "served.py").write_text(FILE)
    done = restrike("endpoints", "check", str(folder / "served.py"), "--slot", "pipeline=digits")
    return done.code, done.err


def test_another_resolver_moves_the_mint_the_adoption_and_the_command_line_together(
    bench: Bench, store: CellStore, restrike: Restrike, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert checked(restrike, tmp_path) == (0, "")
    assert "moved" not in adopted(store)

    def resolve(card: Any, recipe: Any, wanted: tuple[str, ...] = ()) -> Any:
        raise NoSuchTarget(Subject(card=card.name, recipe=recipe), "the targets have moved", "look there")

    monkeypatch.setattr(targets, "resolve_targets", resolve)
    kind, message = prepared(bench)
    assert kind == "NoSuchTarget"
    code, told = checked(restrike, tmp_path)
    assert code == 2
    for said in (message, told, adopted(store)):
        assert "the targets have moved" in said


def test_another_word_on_arming_moves_the_mint_and_the_adoption_together(
    bench: Bench, store: CellStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def block(*given: Any, **options: Any) -> Block:
        return Block(name=ArmingBlock.NO_GPU, reason="the machine has moved", remedy="go there")

    monkeypatch.setattr(targets, "arming_block", block)
    kind, message = prepared(bench)
    assert kind == "CannotArm"
    for said in (message, adopted(store)):
        assert "the machine has moved" in said
