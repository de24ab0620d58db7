"""A phase that is known has its room from its beginning, and what it uses stays while that is made."""

from __future__ import annotations

from restrike.engine.memory.parts import Part
from restrike.engine.memory.peaks import STEP, Form, Need, Peaks, Phase
from restrike.engine.memory.working import working

from .rooms import SIZE_BYTES, Room

PHASE = Phase(name=STEP, form=Form(loop="denoise", width=8, height=8, frames=1))


def known(components_bytes: int, *used: Part) -> Peaks:
    peaks = Peaks()
    need = Need(
        activations_bytes=SIZE_BYTES, kept_bytes=0, components_bytes=components_bytes, used=frozenset(used)
    )
    peaks.remember(PHASE, need)
    return peaks


def test_what_it_uses_at_once_is_not_evicted_for_its_activations() -> None:
    room = Room(2)
    a, b = map(room.part, "ab")
    for part in (a, b):  # `a` is the one that would go
        room.residency.use(part)
    with working(room.residency, known(SIZE_BYTES, a), PHASE):
        assert room.names == {"a"}
        assert room.residency.budget.reserved_bytes == SIZE_BYTES
    assert room.residency.budget.reserved_bytes == 0


def test_what_it_uses_in_turn_may_go_for_them() -> None:
    room = Room(2)
    a, b = map(room.part, "ab")
    for part in (a, b):
        room.residency.use(part)
    with working(room.residency, known(SIZE_BYTES, a, b), PHASE):
        assert room.names == {"b"}
