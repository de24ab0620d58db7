"""The door: all gates or none, first come first served, and whatever was taken is given back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from restrike.engine.scheduling.door import Door, Ticket
from restrike.errors import Refused, Shortfall

from .gating import Slots, ask, in_thread


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_without_gates_everybody_enters() -> None:
    door = Door()
    assert door.enter(door.queue(ask()))
    assert door.counts == (1, 0)


def test_all_gates_or_none() -> None:
    wide, narrow = Slots(2), Slots(1)
    door = Door((wide, narrow))
    first, second = door.queue(ask()), door.queue(ask())
    assert door.enter(first)
    assert not door.enter(second)
    assert (wide.inside, narrow.inside) == (1, 1)
    door.leave(first)
    assert door.enter(second)
    door.leave(second)
    assert (wide.inside, narrow.inside) == (0, 0)
    assert wide.came == wide.left == 3


def test_a_gate_that_refuses_costs_the_others_nothing() -> None:
    first, second = Slots(2), Slots(1, refuses=Refused("never"))
    door = Door((first, second))
    ticket = door.queue(ask())
    with pytest.raises(Refused, match="never"):
        door.enter(ticket)
    assert first.inside == 0
    assert door.counts == (0, 0)


def test_nobody_overtakes_who_waits_at_the_same_gate() -> None:
    gate = Slots(1)
    door = Door((gate,))
    first, second, third = (door.queue(ask(f"a {digit}")) for digit in range(3))
    assert door.enter(first)
    assert not door.enter(second)
    assert not door.enter(third)
    door.leave(first)
    assert not door.enter(third)
    assert door.enter(second)
    assert gate.let_in == ["a 0", "a 1"]
    assert gate.asked == ["a 0", "a 1", "a 1"]


def test_lines_of_their_own_do_not_wait_for_each_other() -> None:
    gate, odd = Slots(1, apart=True), Slots(9)
    door = Door((gate, odd))
    first, second, third = (door.queue(ask(f"a {digit}")) for digit in range(3))
    assert door.enter(first)
    assert not door.enter(second)
    door.leave(first)
    assert door.enter(third)
    assert gate.let_in == ["a 0", "a 2"]


def test_who_gives_up_its_place_is_no_longer_in_the_way() -> None:
    door = Door((Slots(1),))
    first, second, third = (door.queue(ask()) for _ in range(3))
    assert door.enter(first)
    assert not door.enter(second)
    door.leave(second)
    door.leave(first)
    assert door.enter(third)


def test_leaving_twice_leaves_once() -> None:
    gate = Slots(1)
    door = Door((gate,))
    ticket = door.queue(ask())
    assert door.enter(ticket)
    door.leave(ticket)
    door.leave(ticket)
    assert (gate.inside, gate.left) == (0, 1)


def test_it_says_what_is_waited_for() -> None:
    door = Door((Slots(1),))
    first, second = door.queue(ask()), door.queue(ask())
    assert door.waiting_for(second) == "its turn"
    door.enter(first)
    door.enter(second)
    assert door.waiting_for(second) == "one of 1 places"


class TestWaiting:
    def waits(self, clock: Callable[[], float] = time.monotonic) -> tuple[Door, Ticket, Ticket]:
        """One inside, the other not, both of this thread."""
        door = Door((Slots(1),), stall_limit_s=5, clock=clock)
        inside, outside = door.queue(ask()), door.queue(ask())
        assert door.enter(inside)
        assert not door.enter(outside)
        return door, inside, outside

    def test_a_thread_cannot_wait_for_itself(self) -> None:
        door, _, outside = self.waits()
        with pytest.raises(Shortfall, match="one of 1 places, which only requests that this same thread"):
            door.wait(outside, 10)

    def test_it_waits_for_another_thread_until_somebody_leaves(self) -> None:
        door, inside, outside = self.waits()
        inside.thread = -1
        began = threading.Event()

        def leave() -> None:
            began.wait()
            door.leave(inside)

        thread = in_thread(leave)
        with door.changed:
            began.set()
            door.wait(outside, 30)
        thread.join()
        assert door.enter(outside)

    def test_who_nobody_can_help_fails_after_a_while(self) -> None:
        clock = Clock()
        door = Door((Slots(0),), stall_limit_s=5, clock=clock)
        ticket = door.queue(ask())
        assert not door.enter(ticket)
        door.wait(ticket, 0)
        clock.now_s = 6
        with pytest.raises(
            Shortfall, match="nothing is running, and yet a request waits for one of 0 places"
        ):
            door.wait(ticket, 0)

    def test_that_while_does_not_run_as_long_as_somebody_is_inside(self) -> None:
        clock = Clock()
        door, inside, outside = self.waits(clock)
        inside.thread = -1
        clock.now_s = 6
        door.wait(outside, 0)
        door.leave(inside)
        door.wait(outside, 0)
