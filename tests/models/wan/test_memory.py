"""Two experts in the memory of one: each comes when its steps do, and no byte of the video changes."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.engine.events import StepFinished
from restrike.engine.gate import contents
from restrike.errors import Shortfall
from restrike.keys import Digest

from .conftest import Checkpoints, wan_at
from .tiny import TinyWan

CLIP = Request(
    prompt="a red circle", seed=3, steps=4, width=16, height=16, frames=1, guidance=2.0, guidance_2=3.0
)
FFN_WIDTH = 98304
"""So that an expert is larger than all else together, activations too, as in the published checkpoint."""


@pytest.fixture(scope="module")
def folder(checkpoints: Checkpoints) -> Path:
    return checkpoints(TinyWan(boundary_ratio=0.9, ffn_width=FFN_WIDTH))


@pytest.fixture(scope="module")
def plenty(folder: Path) -> Engine:
    """An engine that has made CLIP, with room for everything at once."""
    engine = Engine(device="cpu", precision="float32")
    engine.generate(wan_at(folder), CLIP)
    return engine


@pytest.fixture(scope="module")
def expert_bytes(folder: Path, plenty: Engine) -> int:
    """What one expert holds, as large as the other and larger than any other component."""
    sizes = {part.name: part.size_bytes for part in plenty.load(wan_at(folder)).parts()}
    one, other = sizes.pop("transformer"), sizes.pop("transformer_2")
    assert one == other > 2 * sum(sizes.values())
    return one


@pytest.fixture(scope="module")
def resident_run(folder: Path, plenty: Engine) -> dict[int, Digest]:
    return contents(plenty.generate(wan_at(folder), CLIP))


def swapping(expert_bytes: int) -> Engine:
    """An engine with room for one expert, the activations, and little more."""
    return Engine(device="cpu", precision="float32", memory_limit_bytes=int(1.6 * expert_bytes))


def test_the_experts_swap_at_the_boundary_and_the_video_is_the_same(
    folder: Path, expert_bytes: int, resident_run: dict[int, Digest]
) -> None:
    engine, card = swapping(expert_bytes), wan_at(folder)
    experts: list[str] = []
    most = 0
    for event in engine.stream(card, CLIP):
        (found,) = engine.memory()
        most = max(most, found.resident_bytes)
        if isinstance(event, StepFinished):
            experts.append(event.component)
    assert set(experts) == {"transformer", "transformer_2"}
    assert expert_bytes < most <= 1.6 * expert_bytes
    assert contents(engine.generate(card, CLIP)) == resident_run
    loads = {each.component: each.loads for each in engine.memory()[0].residents}
    assert loads["transformer"] > 1
    assert loads["transformer_2"] > 1


def test_the_expert_that_left_is_gone(folder: Path, expert_bytes: int) -> None:
    """Not only counted as gone: no second expert is alive while the other one runs."""
    engine = swapping(expert_bytes)
    resident = engine.load(wan_at(folder))
    alive: weakref.WeakSet[Any] = weakref.WeakSet()
    most = 0
    for event in engine.stream(wan_at(folder), CLIP):
        parts = resident.parts("transformer", "transformer_2")
        alive |= {part.component for part in parts if part.component is not None}
        if isinstance(event, StepFinished):
            gc.collect()
            most = max(most, len(alive))
    assert most == 1


def test_with_room_for_both_no_expert_leaves(folder: Path, plenty: Engine, expert_bytes: int) -> None:
    (found,) = plenty.memory()
    assert not found.evictions
    assert found.resident_bytes > 2 * expert_bytes


def test_interleaved_requests_swap_too(folder: Path, plenty: Engine, expert_bytes: int) -> None:
    requests = [(wan_at(folder), replace(CLIP, steps=2, seed=seed)) for seed in (1, 2)]
    alone = [contents(plenty.generate(*each)) for each in requests]
    together = swapping(expert_bytes).generate_interleaved(requests)
    assert [contents(outcome.result()) for outcome in together] == alone


def test_less_than_an_expert_is_refused_before_anything_is_loaded(folder: Path, expert_bytes: int) -> None:
    engine = Engine(device="cpu", precision="float32", memory_limit_bytes=expert_bytes // 2)
    with pytest.raises(Shortfall, match=r"card 'wan' needs .* at once on cpu .* and may use"):
        engine.generate(wan_at(folder), CLIP)
    assert engine.load(wan_at(folder)).loaded() == ()
