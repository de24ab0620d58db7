"""An engine that is cleared lets go of all that nobody holds, and computes the same afterwards."""

from __future__ import annotations

import torch

from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.engine.gate import contents
from restrike.engine.memory.host import Host
from restrike.engine.memory.parts import Place

from .rooms import SIZE_BYTES, Room
from .test_graphs import capturing

SEVEN = Request(prompt="a seven", seed=1, steps=6)


def test_all_that_was_loaded_goes_and_comes_again() -> None:
    engine = capturing()
    made = contents(engine.generate("digits", SEVEN))
    (before,) = engine.memory()
    graphs = engine.load("digits").capturer.counters.graphs
    assert before.resident_bytes > 0
    assert graphs > 0
    assert engine.clear() >= before.resident_bytes
    (after,) = engine.memory()
    assert (after.resident_bytes, dict(after.reserved)) == (0, {})
    assert engine.warm() == ()
    assert engine.load("digits").capturer.counters.graphs == 0
    assert engine.features.counters.bytes == 0
    assert engine.clear() == 0
    assert contents(engine.generate("digits", SEVEN)) == made
    assert {part.loads for part in engine.load("digits").parts()} == {2}


def test_a_request_that_runs_is_not_changed_by_it() -> None:
    engine = Engine(device="cpu")
    whole = contents(engine.generate("digits", SEVEN))
    events = engine.stream("digits", SEVEN)
    for _ in range(4):
        next(events)
    assert engine.clear() > 0
    *_, last = events
    assert contents(last.generation) == whole  # type: ignore[union-attr]


def test_weights_that_are_in_no_file_stay() -> None:
    engine = Engine(device="cpu")
    module = engine.load("digits").component("transformer")
    new = {name: value + torch.full_like(value, 0.01) for name, value in module.state_dict().items()}
    engine.sync("digits", "transformer", new, 1)
    synced = contents(engine.generate("digits", SEVEN))
    engine.clear()
    assert engine.load("digits").loaded() == ("transformer",)
    assert contents(engine.generate("digits", SEVEN)) == synced


def test_what_was_moved_to_main_memory_goes_and_what_sleeps_stays() -> None:
    room = Room(1, host=Host(free_bytes=lambda: 1 << 30))
    parked, asleep, used = map(room.part, ("parked", "asleep", "used"))
    room.residency.use(asleep)
    room.residency.sleep([asleep])
    room.residency.use(parked)
    room.residency.use(used)
    assert parked.place is Place.HOST
    assert room.residency.clear() == SIZE_BYTES
    assert [part.place for part in (parked, used)] == [Place.ABSENT, Place.ABSENT]
    assert parked.component is None
    assert asleep.place is Place.HOST
