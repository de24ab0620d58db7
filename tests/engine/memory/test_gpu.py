"""The same on a GPU, which has its own memory: what is evicted waits in main memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.engine.gate import contents
from restrike.engine.memory.parts import Place
from restrike.engine.memory.peaks import DECODE, ENCODE, STEP
from restrike.models.digits.card import CARD

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU here")

GPU = "cuda:0"
SEVEN = Request(prompt="a seven", seed=1, steps=4)
TRANSFORMER_BYTES = 2_174_608
ONE, OTHER = replace(CARD, name="one"), replace(CARD, name="other")


def test_what_is_evicted_waits_in_main_memory_and_changes_no_picture() -> None:
    plenty = Engine(device=GPU)
    expected = contents(plenty.generate(CARD, SEVEN))
    engine = Engine(device=GPU, memory_limit_bytes=int(1.5 * TRANSFORMER_BYTES))
    for card in (ONE, OTHER) * 3:
        assert contents(engine.generate(card, SEVEN)) == expected
    (found,) = engine.memory()
    places = {(each.card, each.component): each.place for each in found.residents}
    assert places["one", "transformer"] is Place.HOST
    assert places["other", "transformer"] is Place.DEVICE
    assert all(each.loads == 1 for each in found.residents)
    (waiting,) = engine.load(ONE).parts("transformer")
    assert all(each.is_pinned() for each in waiting.component.parameters())


def test_what_sleeps_frees_the_gpu_and_wakes_the_same() -> None:
    engine = Engine(device=GPU)
    resident = engine.load(CARD)
    expected = contents(engine.generate(CARD, SEVEN))
    before_bytes = torch.cuda.memory_allocated(GPU)
    resident.sleep()
    assert before_bytes - torch.cuda.memory_allocated(GPU) >= TRANSFORMER_BYTES
    resident.wake()
    assert contents(engine.generate(CARD, SEVEN)) == expected


def test_the_counted_bytes_are_those_of_the_allocator() -> None:
    before_bytes = torch.cuda.memory_allocated(GPU)
    engine = Engine(device=GPU)
    for name in ("text_encoder", "transformer", "decoder"):
        engine.load(CARD).component(name)
    held_bytes = torch.cuda.memory_allocated(GPU) - before_bytes
    # The allocator rounds each tensor up to 512 bytes.
    assert engine.memory()[0].resident_bytes <= held_bytes <= 1.05 * engine.memory()[0].resident_bytes


def test_every_phase_was_measured() -> None:
    engine = Engine(device=GPU)
    engine.generate(CARD, SEVEN)
    (needs,) = engine.load(CARD).peaks._needs.values()
    assert {phase.name for phase in needs} == {ENCODE, STEP, DECODE}
    assert max(need.activations_bytes for need in needs.values()) > 100_000
    torch.cuda.reset_peak_memory_stats(GPU)
    base_bytes = torch.cuda.memory_allocated(GPU)
    engine.generate(CARD, replace(SEVEN, seed=2, prompt="a two"))
    measured_bytes = torch.cuda.max_memory_allocated(GPU) - base_bytes
    predicted_bytes = max(need.activations_bytes + need.kept_bytes for need in needs.values())
    assert abs(predicted_bytes - measured_bytes) <= 0.1 * measured_bytes
