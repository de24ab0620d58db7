"""The micro-mint rig: the smallest real card through the whole cycle, with both recipes, in real processes.

Mint, publish, and in another process discover, verify, bind, prove, arm, and make a picture, which compiles
nothing. It needs the artifact: a cycle that skipped any of it fails.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from restrike.cards import registry
from restrike.mint.adoption.second import serve_in_second_process
from restrike.mint.cell.facts import Recipe
from restrike.mint.cell.host import cpu_target
from restrike.mint.outcome import Outcome, error_of
from restrike.mint.parent import Unwatched, Watcher, mint
from restrike.mint.request import MintRequest, slot_of

CARD = "digits"
RECIPES: tuple[Recipe, ...] = ("aot", "dynamo")


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One recipe's cycle: seconds of the mint and of the whole second process, and what was proved there."""

    recipe: Recipe
    key: str
    mint_s: float
    adopt_s: float
    times_faster: float
    max_difference: float


def _unwatched(recipe: Recipe) -> Watcher:
    return Unwatched()


def run_rig(watcher_of: Callable[[Recipe], Watcher] = _unwatched) -> tuple[Trial, ...]:
    """Run both cycles side by side in a store that is thrown away, each with a watcher of its own.

    Raises:
        Refused, Shortfall, Crashed, Cancelled: as the cycle's first failure.
    """
    with tempfile.TemporaryDirectory(prefix="restrike-rig-") as folder, ThreadPoolExecutor() as pool:
        return tuple(pool.map(lambda recipe: _cycle(recipe, Path(folder), watcher_of(recipe)), RECIPES))


def _cycle(recipe: Recipe, folder: Path, watcher: Watcher) -> Trial:
    card = registry.find(CARD)
    shapes = card.compile.shapes[:1] if card.compile else ()
    request = MintRequest(
        slot=slot_of(card),
        recipe=recipe,
        target=cpu_target(),
        store=str(folder / "cells"),
        scratch=str(folder / recipe),
        shapes=tuple(shape.name for shape in shapes),
    )
    began = time.perf_counter()
    minted = mint(request, watcher)
    mint_s = time.perf_counter() - began
    report = minted.report
    if report.ending.outcome is not Outcome.OK:
        raise error_of(report.ending.outcome, report.ending.message)
    (landed,) = report.landed
    began = time.perf_counter()
    proof = serve_in_second_process(request, landed.entry, folder / recipe / "adopting")
    return Trial(
        recipe=recipe,
        key=landed.key,
        mint_s=mint_s,
        adopt_s=time.perf_counter() - began,
        times_faster=proof.eager_s / proof.cell_s,
        max_difference=proof.max_difference,
    )
