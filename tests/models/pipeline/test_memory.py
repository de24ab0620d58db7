"""Pipelines in memory: counted over all modules, held from the first step to the last, evicted between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from restrike.cards.card import ModelCard
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.engine.events import StepFinished, Succeeded
from restrike.engine.gate import contents
from restrike.errors import Shortfall
from restrike.keys import Digest
from restrike.models.pipeline.card import PIPELINE

from .families import FAMILIES


def asked(name: str) -> Request:
    return Request(**{"prompt": "a red circle", "seed": 7, "steps": 2, **FAMILIES[name].request})


def made(engine: Engine, card: ModelCard, name: str) -> dict[int, Digest]:
    return contents(engine.generate(card, asked(name)))


@pytest.fixture(scope="module")
def plenty() -> Engine:
    return Engine(device="cpu")


@pytest.fixture(scope="module")
def size_bytes(plenty: Engine, card_of: Callable[[str], ModelCard]) -> dict[str, int]:
    """What the pipelines hold, measured."""
    for name in ("sd", "flux"):
        plenty.load(card_of(name)).component(PIPELINE)
    return {name: plenty.load(card_of(name)).parts(PIPELINE)[0].size_bytes for name in ("sd", "flux")}


def test_all_modules_of_a_pipeline_count(
    size_bytes: dict[str, int], reference_of: Callable[[str], Any]
) -> None:
    modules = [part for part in reference_of("sd").components.values() if isinstance(part, torch.nn.Module)]
    tensors = {tensor.data_ptr(): tensor for m in modules for tensor in (*m.parameters(), *m.buffers())}
    assert size_bytes["sd"] == sum(tensor.untyped_storage().nbytes() for tensor in tensors.values())


def test_its_files_tell_its_size_before_it_is_loaded(
    size_bytes: dict[str, int], card_of: Callable[[str], ModelCard]
) -> None:
    resident = Engine(device="cpu").load(card_of("sd"))
    guessed_bytes = resident.parts(PIPELINE)[0].size_bytes
    assert resident.loaded() == ()
    # Buffers that no file holds are not told.
    assert 0.95 * size_bytes["sd"] <= guessed_bytes <= size_bytes["sd"]


def test_two_pipelines_in_the_room_of_one(
    plenty: Engine, size_bytes: dict[str, int], card_of: Callable[[str], ModelCard]
) -> None:
    names = ("sd", "flux", "sd")
    expected = [made(plenty, card_of(name), name) for name in names]
    engine = Engine(device="cpu", memory_limit_bytes=int(1.05 * max(size_bytes.values())))
    assert [made(engine, card_of(name), name) for name in names] == expected
    (found,) = engine.memory()
    assert sum(found.evictions.values()) >= 2
    assert found.resident_bytes <= found.limit.size_bytes


def test_a_pipeline_in_the_middle_of_its_call_stays(
    plenty: Engine, size_bytes: dict[str, int], card_of: Callable[[str], ModelCard]
) -> None:
    engine = Engine(device="cpu", memory_limit_bytes=int(1.05 * max(size_bytes.values())))
    stream = engine.stream(card_of("sd"), asked("sd"))
    while not isinstance(next(stream), StepFinished):
        pass
    with pytest.raises(Shortfall, match="beside what is in use"):
        engine.load(card_of("flux")).component(PIPELINE)
    last = list(stream)[-1]
    assert isinstance(last, Succeeded)
    assert contents(last.generation) == made(plenty, card_of("sd"), "sd")
    assert engine.load(card_of("flux")).component(PIPELINE)


def test_a_pipeline_that_can_never_fit_is_refused_before_it_is_loaded(
    size_bytes: dict[str, int], card_of: Callable[[str], ModelCard]
) -> None:
    engine = Engine(device="cpu", memory_limit_bytes=size_bytes["sd"] // 2)
    with pytest.raises(Shortfall, match="the whole pipeline"):
        engine.generate(card_of("sd"), asked("sd"))
    assert engine.load(card_of("sd")).loaded() == ()
