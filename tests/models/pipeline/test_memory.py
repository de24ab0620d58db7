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
from restrike.engine.memory.peaks import ENCODE, STEP
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


def test_two_pipelines_in_the_room_of_one(plenty: Engine, card_of: Callable[[str], ModelCard]) -> None:
    names = ("sd", "flux", "sd", "flux")
    expected = [made(plenty, card_of(name), name) for name in names]
    needs = [need for name in names for need in plenty.load(card_of(name)).peaks.of_loop(PIPELINE)]
    kept_bytes = max(need.kept_bytes for need in needs)
    limit_bytes = max(need.together_bytes for need in needs) + kept_bytes
    engine = Engine(device="cpu", memory_limit_bytes=limit_bytes)
    assert [made(engine, card_of(name), name) for name in names] == expected
    (found,) = engine.memory()
    assert found.evictions.keys() == {"room for activations"}
    assert found.resident_bytes <= found.limit.size_bytes


def test_a_pipeline_in_the_middle_of_its_call_stays(
    plenty: Engine, card_of: Callable[[str], ModelCard]
) -> None:
    engine = Engine(device="cpu", memory_limit_bytes=10_000_000)
    residency = engine.load(card_of("sd")).residency
    stream = engine.stream(card_of("sd"), asked("sd"))
    while not isinstance(next(stream), StepFinished):
        pass
    with residency.turn, pytest.raises(Shortfall, match="beside what is in use"):
        residency.room("the test", 10_000_000)
    last = list(stream)[-1]
    assert isinstance(last, Succeeded)
    assert contents(last.generation) == made(plenty, card_of("sd"), "sd")
    with residency.turn:
        residency.room("the test", 10_000_000).release()
    assert engine.memory()[0].resident_bytes == 0


def test_a_pipeline_that_can_never_fit_is_refused_before_it_is_loaded(
    size_bytes: dict[str, int], card_of: Callable[[str], ModelCard]
) -> None:
    engine = Engine(device="cpu", memory_limit_bytes=size_bytes["sd"] // 2)
    with pytest.raises(Shortfall, match="the whole pipeline"):
        engine.generate(card_of("sd"), asked("sd"))
    assert engine.load(card_of("sd")).loaded() == ()


def test_what_a_pipeline_computes_is_measured_though_it_runs_on_a_thread_of_its_own(
    card_of: Callable[[str], ModelCard],
) -> None:
    engine = Engine(device="cpu")
    engine.generate(card_of("sd"), asked("sd"))
    (needs,) = engine.load(card_of("sd")).peaks._needs.values()
    peaks = {phase.name: need.activations_bytes for phase, need in needs.items()}
    assert peaks[ENCODE] > 1000
    assert peaks[STEP] > 100_000
    # The decoder runs while the call is asked whether there is a further step.
    assert peaks["after step 2"] > 100_000
