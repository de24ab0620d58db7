"""A turn pins what is used in it; an inner one lets go when it ends."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.engine.memory.turn import Turn

from .rooms import Room


def test_what_an_inner_turn_pins_is_let_go_before_the_outer_one_ends() -> None:
    room, turn = Room(9), Turn()
    outer, inner = room.part("outer"), room.part("inner")
    with turn:
        turn.pin(outer)
        with turn:
            turn.pin(inner)
            assert turn.pinned == {outer, inner}
        assert turn.pinned == {outer}
    assert turn.pinned == set()


def test_outside_a_turn_nothing_is_pinned() -> None:
    turn = Turn()
    turn.pin(Room(9).part("part"))
    assert turn.pinned == set()


def test_one_thread_at_a_time_has_the_turn() -> None:
    turn, inside = Turn(), 0

    def work(_: int) -> int:
        nonlocal inside
        most = 0
        for _ in range(200):
            with turn:
                inside += 1
                most = max(most, inside)
                inside -= 1
        return most

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(work, range(4))) == {1}


@pytest.mark.parametrize("batch_limit", [1, 2])
def test_a_step_pins_its_denoiser_alone_and_with_others(batch_limit: int) -> None:
    """From before it is looked up: in between, another thread could take its place on the device."""
    engine = Engine(device="cpu", batch_limit=batch_limit)
    resident = engine.load("digits")
    pinned: list[set[str]] = []

    def look(*given: object) -> None:
        pinned.append({part.name for part in resident.residency.turn.pinned})

    resident.component("transformer").register_forward_pre_hook(look)
    asked = [("digits", Request(prompt=f"a {digit}", seed=digit, steps=2)) for digit in (3, 4)]
    for end in engine.generate_interleaved(asked):
        end.result()
    assert engine.metrics().forwards == {batch_limit: 4 // batch_limit}
    assert pinned
    assert all(each == {"transformer"} for each in pinned)
