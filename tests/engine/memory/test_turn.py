"""A turn pins what is used in it; an inner one lets go when it ends."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

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
