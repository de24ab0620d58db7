"""Captured graphs have a share of the memory: counted, admitted, and gone when their component is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from restrike.cards.request import Request
from restrike.engine.capture.capturer import Capturer
from restrike.engine.capture.limits import CaptureLimits
from restrike.engine.capture.tape import TapeBackend
from restrike.engine.engine import Engine
from restrike.engine.gate import contents
from restrike.engine.memory.budget import Budget, Share
from restrike.engine.memory.limits import Limit
from restrike.engine.resident import GRAPHS
from restrike.models.digits.card import CARD

from .rooms import CPU

SEVEN = Request(prompt="a seven", seed=1, steps=6)
TRANSFORMER_BYTES = 2_174_608


def capturing(limit_bytes: int | None = None) -> Engine:
    """An engine that keeps every graph that fits, whatever a busy machine measures."""
    engine = Engine(device="cpu", memory_limit_bytes=limit_bytes)
    resident = engine.load("digits")
    resident.capturer = Capturer(
        TapeBackend(CPU),
        CaptureLimits(min_speedup=0.0, measure_s=0.0),
        named=True,
        share=Share(resident.residency.budget, GRAPHS),
    )
    return engine


def test_the_capturer_of_a_card_has_its_share() -> None:
    engine = Engine(device="cpu", capture="tape")
    budget = engine.load("digits").residency.budget
    assert {each.what for each in budget._reservations} == {GRAPHS}


def test_graphs_are_counted() -> None:
    engine = capturing()
    engine.generate("digits", SEVEN)
    counters = engine.load("digits").capturer.counters
    assert counters.replays > 0
    assert engine.memory()[0].reserved == {GRAPHS: counters.bytes}


def test_a_graph_that_does_not_fit_is_not_made_and_the_step_runs_eagerly() -> None:
    alone = contents(Engine(device="cpu").generate("digits", SEVEN))
    engine = capturing(TRANSFORMER_BYTES + 190_000)
    assert contents(engine.generate("digits", SEVEN)) == alone
    counters = engine.load("digits").capturer.counters
    assert (counters.captures, counters.bytes) == (0, 0)
    assert "over budget" in str(counters.eager_breaks)


@pytest.mark.parametrize("act", ["sleep", "eviction", "change"])
def test_no_graph_outlives_its_component(act: str) -> None:
    engine = capturing(2 * TRANSFORMER_BYTES if act == "eviction" else None)
    resident = engine.load("digits")
    first = contents(engine.generate("digits", SEVEN))
    assert resident.capturer.counters.graphs
    if act == "sleep":
        resident.sleep("transformer")
        resident.wake("transformer")
    elif act == "eviction":
        engine.generate(replace(CARD, name="other"), SEVEN)
    else:
        resident.sleep()
        resident.wake()
    assert resident.capturer.counters.graphs == resident.capturer.counters.bytes == 0
    assert not engine.memory()[0].reserved
    assert sum(resident.capturer.counters.evictions.values()) > 0
    assert contents(engine.generate("digits", SEVEN)) == first


def test_a_share_goes_up_and_down() -> None:
    budget = Budget(Limit(size_bytes=1000, why="the test"))
    share = Share(budget, "graphs")
    share.take(300)
    share.take(200)
    assert budget.reserved() == {"graphs": 200}
    assert share.refusal(800) is None
    assert share.refusal(801) == "801 bytes, where 800 of 1.0 kB (the test) are free"
    share.take(0)
    assert budget.free_bytes == 1000
