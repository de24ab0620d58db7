"""Components come when they are used, and go by what they are worth when others need the room."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import count
from typing import Any

import pytest
import torch
from torch import nn

from restrike.engine.memory.host import Host
from restrike.engine.memory.parts import Part, Place
from restrike.engine.memory.residency import FOR_READING, Asleep
from restrike.errors import Crashed, Refused, Shortfall

from .rooms import SIZE_BYTES, Room, layer

ROOMY = Host(free_bytes=lambda: 1 << 30)
FULL = Host(free_bytes=lambda: SIZE_BYTES)  # room for one to pass through, not to stay


def test_a_component_is_loaded_when_it_is_used_and_once() -> None:
    room = Room(2)
    part = room.part("a")
    assert part.place is Place.ABSENT
    first = room.residency.use(part)
    assert room.residency.use(part) is first
    assert room.loads == {"a": 1}
    assert room.residency.budget.resident.n_bytes == SIZE_BYTES


def test_what_was_used_longest_ago_goes_first_when_all_cost_the_same() -> None:
    room = Room(2)
    a, b, c = map(room.part, "abc")
    for part in (a, b, c):
        room.residency.use(part)
    assert room.names == {"b", "c"}
    assert room.residency.snapshot().evictions == {"room for a component": 1}


def test_what_takes_long_to_load_stays_and_yields_in_time() -> None:
    room = Room(2)
    dear, cheap = room.part("dear", seconds=5), [room.part(f"cheap {n}") for n in range(9)]
    room.residency.use(dear)
    for part in cheap[:3]:
        room.residency.use(part)
    assert room.names == {"dear", "cheap 2"}
    for part in cheap:
        room.residency.use(part)
    assert "dear" not in room.names


def test_of_what_takes_as_long_the_larger_goes() -> None:
    room = Room(3)
    small, other = room.part("small"), room.part("other")
    big = room.part("big", load=lambda: nn.ModuleList([layer(1), layer(2)]), expected_bytes=2 * SIZE_BYTES)
    for part in (small, big, other):
        room.residency.use(part)
    assert room.names == {"small", "other"}


def test_room_is_made_before_a_component_comes() -> None:
    room, there = Room(1), list[set[str]]()

    def load() -> nn.Module:
        there.append(room.names)
        return layer()

    room.residency.use(room.part("a"))
    room.residency.use(room.part("b", load=load))
    assert there == [set()]


def test_nothing_goes_while_there_is_room() -> None:
    room = Room(3)
    for part in [room.part(name) for name in "abc"] * 3:
        room.residency.use(part)
    assert room.loads == {"a": 1, "b": 1, "c": 1}


def test_what_is_used_in_a_turn_stays_until_it_ends() -> None:
    room = Room(2)
    a, b, c = map(room.part, "abc")
    with room.residency.turn:
        for part in (a, b):
            room.residency.use(part)
        with pytest.raises(
            Shortfall, match=r"component 'c' of card 'card': it needs 1\.1 kB, and 0 bytes of 2\.2"
        ):
            room.residency.use(c)
    room.residency.use(c)
    assert "c" in room.names


def test_what_is_used_apart_makes_room_for_the_next() -> None:
    room = Room(1)
    a, b = map(room.part, "ab")
    with room.residency.turn:
        with room.residency.turn:
            room.residency.use(a)
        room.residency.use(b)
    assert room.names == {"b"}


def test_what_a_request_holds_stays_between_turns() -> None:
    room = Room(1)
    a, b = map(room.part, "ab")
    let_go = room.residency.hold([a])
    room.residency.use(a)
    with pytest.raises(Shortfall):
        room.residency.use(b)
    let_go()
    room.residency.use(b)
    assert room.names == {"b"}


def test_memory_that_somebody_still_holds_is_not_taken_for_free() -> None:
    room = Room(1)
    a, b = map(room.part, "ab")
    kept = room.residency.use(a)
    with pytest.raises(Shortfall):
        room.residency.use(b)
    del kept
    room.residency.use(b)


def test_a_module_that_holds_itself_in_a_cycle_is_freed_when_it_matters() -> None:
    room = Room(1)

    def cyclic() -> nn.Module:
        module = layer()
        vars(module)["itself"] = module
        return module

    gc.disable()
    try:
        room.residency.use(room.part("cyclic", load=cyclic))
        room.residency.use(room.part("b"))
    finally:
        gc.enable()
    assert room.names == {"b"}


def test_whoever_keeps_tensors_is_told_before_they_go() -> None:
    room = Room(1)
    a, b = map(room.part, "ab")
    for part in (a, b):
        room.residency.use(part)
    assert room.moved == [("a", "room for a component")]


def test_a_load_that_fails_leaves_everything_as_it_was() -> None:
    room = Room(2)

    def torn() -> nn.Module:
        kept = layer()
        raise Crashed(f"torn at {kept.weight[0, 0]:.1f}")

    broken = room.part("broken", load=torn)
    for _ in range(2):
        with pytest.raises(Crashed):
            room.residency.use(broken)
        assert broken.place is Place.ABSENT
        assert room.residency.budget.resident.n_bytes == room.residency.budget.reserved_bytes == 0


def test_a_set_comes_whole_or_not_at_all() -> None:
    room = Room(4)
    a, here = room.part("a"), room.part("here")
    room.residency.use(here)

    def torn() -> nn.Module:
        raise Crashed("torn")

    with pytest.raises(Crashed):
        room.residency.bring([here, a, room.part("broken", load=torn)])
    assert room.names == {"here"}
    assert room.residency.budget.resident.n_bytes == SIZE_BYTES
    assert room.moved == [("a", "its set did not come whole")]


def test_a_set_for_which_there_is_no_room_at_once_does_not_come_one_by_one() -> None:
    room = Room(1)
    a, b = map(room.part, "ab")
    with pytest.raises(Shortfall):
        room.residency.bring([a, b])
    assert room.names == set()


def test_what_is_kept_stays_for_the_turn_if_it_is_there() -> None:
    room = Room(1)
    a, b = map(room.part, "ab")
    room.residency.use(a)
    with room.residency.turn:
        room.residency.keep([a, b])
        assert room.residency.turn.pinned == {a}
        with pytest.raises(Shortfall):
            room.residency.use(b)
    room.residency.use(b)
    assert room.names == {"b"}


def test_what_is_measured_begins_with_what_is_pinned_and_leaves_loads_aside() -> None:
    room = Room(3)
    a, b, c = map(room.part, "abc")
    loads_aside: list[dict[str, int]] = []

    @contextmanager
    def aside() -> Iterator[None]:
        before = dict(room.loads)
        yield
        loads_aside.append({n: k for n, k in room.loads.items() if k != before.get(n)})

    with room.residency.turn:
        room.residency.use(a)
        usage = room.residency.measure(aside)
        assert (usage.parts, usage.most_bytes) == ({a}, SIZE_BYTES)
        room.residency.use(b)
        room.residency.use(b)
        assert (usage.parts, usage.most_bytes) == ({a, b}, 2 * SIZE_BYTES)
        assert loads_aside == [{"b": 1}]
        after = room.residency.watch()
        room.residency.use(c)
        assert usage.parts == {a, b}
        assert after.parts == {a, b, c}
    assert loads_aside == [{"b": 1}]


def test_a_component_that_is_larger_than_its_files_say_makes_room_or_goes() -> None:
    room = Room(2)
    big = room.part("big", load=lambda: nn.ModuleList([layer(), layer(), layer()]), expected_bytes=1)
    a = room.part("a")
    room.residency.use(a)
    with pytest.raises(Shortfall):
        room.residency.use(big)
    assert big.place is Place.ABSENT
    assert room.residency.budget.resident.n_bytes == 0
    assert big.size_bytes == 3 * SIZE_BYTES


def test_activations_make_room_too() -> None:
    room = Room(2)
    a, b = map(room.part, "ab")
    for part in (a, b):
        room.residency.use(part)
    with room.residency.turn, room.residency.room("step", SIZE_BYTES):
        assert room.names == {"b"}
        assert room.residency.budget.free_bytes == 0
    assert room.residency.budget.free_bytes == SIZE_BYTES


class TestMainMemory:
    def test_what_is_evicted_waits_there_and_is_not_loaded_again(self) -> None:
        room = Room(1, host=ROOMY)
        a, b = map(room.part, "ab")
        first = room.residency.use(a)
        before = first.weight.clone()
        room.residency.use(b)
        assert a.place is Place.HOST
        assert room.residency.budget.resident.n_bytes == SIZE_BYTES
        assert room.residency.use(a) is first
        assert torch.equal(first.weight, before)
        assert room.loads == {"a": 1, "b": 1}

    def test_where_it_is_full_what_is_evicted_is_loaded_again(self) -> None:
        room = Room(1, host=FULL)
        a, b = map(room.part, "ab")
        for part in (a, b, a):
            room.residency.use(part)
        assert room.loads == {"a": 2, "b": 1}

    def test_what_is_read_passes_through_it_and_what_is_parked_there_yields(self) -> None:
        free, parts = 9 * SIZE_BYTES, list[Part]()
        parked = lambda: sum(each.place is Place.HOST for each in parts)  # noqa: E731
        room = Room(1, host=Host(free_bytes=lambda: free - parked() * SIZE_BYTES))
        parts += [room.part(name) for name in "abc"]
        a, b, c = parts
        for part in (a, b):
            room.residency.use(part)
        assert (a.place, b.place) == (Place.HOST, Place.DEVICE)
        free = SIZE_BYTES  # Somebody else takes the rest: only without `a` there is enough for `c` to pass.
        room.residency.use(c)
        assert (a.place, a.component, c.place) == (Place.ABSENT, None, Place.DEVICE)
        assert room.residency.snapshot().evictions[FOR_READING] == 1
        room.residency.use(a)
        assert room.loads == {"a": 2, "b": 1, "c": 1}

    def test_what_cannot_pass_through_it_is_a_shortfall_and_loads_nothing(self) -> None:
        room = Room(2, host=Host(free_bytes=lambda: SIZE_BYTES - 1))
        with pytest.raises(Shortfall, match="no room in main memory to read component 'a' of card 'card'"):
            room.residency.use(room.part("a"))
        assert room.loads == {}
        # The control: where the device's memory is main memory, its own limit alone counts.
        alone = Room(2)
        alone.residency.use(alone.part("a"))
        assert alone.loads == {"a": 1}

    def test_weights_that_no_file_holds_stay_there_whoever_wants_to_pass(self) -> None:
        free = 9 * SIZE_BYTES
        room = Room(1, host=Host(free_bytes=lambda: free))
        a, b, c = map(room.part, "abc")
        room.residency.use(a)
        room.residency.altered(a, True)
        room.residency.use(b)
        assert a.place is Place.HOST
        free = 0
        with pytest.raises(Shortfall, match="no room in main memory"):
            room.residency.use(c)
        assert a.component is not None

    def test_a_way_back_that_fails_leaves_it_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        room = Room(1, host=ROOMY)
        a, b = map(room.part, "ab")
        module = room.residency.use(a)
        before = module.weight.clone()
        room.residency.use(b)
        copies = count(1)
        original = torch.empty_like

        def failing(tensor: torch.Tensor, **where: object) -> torch.Tensor:
            if "pin_memory" not in where and next(copies) == 2:  # on its way to the device
                raise torch.OutOfMemoryError("full")
            return original(tensor, **where)  # pyright: ignore[reportArgumentType, reportCallIssue]

        with monkeypatch.context() as patched:
            patched.setattr("restrike.engine.memory.host.torch.empty_like", failing)
            with pytest.raises(torch.OutOfMemoryError):
                room.residency.use(a)
        assert a.place is Place.HOST
        assert a.parked is not None
        assert {each.data_ptr() for each in module.parameters()} <= a.parked.places, "what came went back"
        assert torch.equal(room.residency.use(a).weight, before)

    def test_the_way_back_is_what_it_is_worth_from_then_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        room = Room(1, host=ROOMY)
        a, b = room.part("a", seconds=9), room.part("b")
        room.residency.use(a)
        room.residency.use(b)
        give = Host.give

        def slow(host: Host, *given: Any) -> None:
            room.clock.now_s += 3
            give(host, *given)

        monkeypatch.setattr(Host, "give", slow)
        assert a.bring_s == 9
        room.residency.use(a)
        assert a.bring_s == 3


class TestWeightsThatNoFileHolds:
    def test_they_are_not_dropped(self) -> None:
        room = Room(1)
        a, b = map(room.part, "ab")
        room.residency.use(a)
        room.residency.altered(a, True)
        with pytest.raises(Shortfall, match="component 'a' of card 'card', whose weights no file holds"):
            room.residency.use(b)
        room.residency.altered(a, False)
        room.residency.use(b)
        assert room.names == {"b"}

    def test_they_are_undone_where_that_is_possible_and_nobody_needs_them(self) -> None:
        room = Room(1)
        a, b, c = map(room.part, "abc")
        room.residency.use(a)
        room.residency.altered(a, True)
        rested: list[Part] = []

        def rest(part: Part) -> None:
            rested.append(part)
            room.residency.altered(part, False)

        room.rest = rest
        room.residency.use(b)
        assert (room.names, rested) == ({"b"}, [a])
        room.residency.use(c)
        assert rested == [a]

    @pytest.mark.parametrize("by", ["a request", "the turn"])
    def test_they_are_not_undone_while_they_are_in_use(self, by: str) -> None:
        room = Room(1)
        a, b = map(room.part, "ab")
        rested: list[Part] = []
        room.rest = rested.append
        with room.residency.turn if by == "the turn" else nullcontext():
            room.residency.use(a)
            room.residency.altered(a, True)
            let_go = room.residency.hold([a] if by == "a request" else [])
            with pytest.raises(Shortfall):
                room.residency.use(b)
            assert rested == []
            let_go()
        # The control: in use no more, it is asked.
        with pytest.raises(Shortfall):
            room.residency.use(b)
        assert rested == [a]

    def test_what_undoes_them_is_not_taken_for_what_the_phase_uses(self) -> None:
        room = Room(1)
        a, b = map(room.part, "ab")
        room.residency.use(a)
        room.residency.altered(a, True)

        def rest(part: Part) -> None:
            with room.residency.turn:
                room.residency.use(part)
            room.residency.altered(part, False)

        room.rest = rest
        with room.residency.turn:
            usage = room.residency.watch()
            room.residency.room("step", SIZE_BYTES).release()
            assert (usage.parts, room.names) == (set(), set())
            room.residency.use(b)
            assert usage.parts == {b}

    def test_they_stay_when_the_way_to_main_memory_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def failing(*given: object) -> None:
            raise RuntimeError("no page-locked memory")

        monkeypatch.setattr(Host, "take", failing)
        room = Room(1, host=ROOMY)
        a, b = map(room.part, "ab")
        room.residency.use(a)
        room.residency.altered(a, True)
        with pytest.raises(RuntimeError, match="page-locked"):
            room.residency.use(b)
        assert (a.place, a.component is not None) == (Place.DEVICE, True)
        # The control: what can be built anew is let go.
        room.residency.altered(a, False)
        room.residency.use(b)
        assert (a.place, a.component, room.names) == (Place.ABSENT, None, {"b"})

    def test_they_may_wait_in_main_memory(self) -> None:
        room = Room(1, host=ROOMY)
        a, b = map(room.part, "ab")
        room.residency.use(a).weight.fill_(7)
        room.residency.altered(a, True)
        room.residency.use(b)
        assert float(room.residency.use(a).weight.mean()) == 7

    def test_where_main_memory_is_full_they_stay(self) -> None:
        free = 9 * SIZE_BYTES
        room = Room(1, host=Host(free_bytes=lambda: free))
        a = room.part("a")
        weight = room.residency.use(a).weight.fill_(7)
        room.residency.altered(a, True)
        free = 0
        with pytest.raises(Shortfall), room.residency.turn:
            room.residency.room("step", SIZE_BYTES)
        assert (a.place, room.moved) == (Place.DEVICE, [])
        assert float(weight.mean()) == 7

    def test_they_are_measured_anew(self) -> None:
        room = Room(4)
        a = room.part("a")
        module = room.residency.use(a)
        module.weight = nn.Parameter(torch.zeros(32, 16), requires_grad=False)
        room.residency.altered(a, True)
        assert room.residency.snapshot().resident_bytes == a.size_bytes == 4 * (32 * 16 + 16)

    def test_they_sleep_without_being_lost(self) -> None:
        room = Room(1)
        a = room.part("a")
        room.residency.use(a).weight.fill_(7)
        room.residency.altered(a, True)
        room.residency.sleep([a])
        with pytest.raises(Asleep):
            room.residency.use(a)
        room.residency.wake([a])
        assert float(room.residency.use(a).weight.mean()) == 7
        assert room.moved == [("a", "asleep")]


class TestSleep:
    def test_what_sleeps_frees_the_device_and_says_how_to_wake_it(self) -> None:
        room = Room(2)
        a = room.part("a")
        room.residency.use(a)
        room.residency.sleep([a])
        assert room.residency.budget.resident.n_bytes == 0
        with pytest.raises(Asleep, match=r"component 'a' of card 'card' is asleep; call wake\('a'\)"):
            room.residency.use(a)
        room.residency.wake([a])
        assert room.names == {"a"}

    def test_what_a_request_uses_does_not_fall_asleep_and_nothing_with_it(self) -> None:
        room = Room(2)
        a, b = map(room.part, "ab")
        let_go = room.residency.hold([b])
        with pytest.raises(Refused, match="component 'b' of card 'card' is in use"):
            room.residency.sleep([a, b])
        assert not a.asleep
        let_go()
        with room.residency.turn:
            room.residency.use(b)
            with pytest.raises(Refused, match="component 'b' of card 'card' is in use"):
                room.residency.sleep([a, b])
        assert not a.asleep
        room.residency.sleep([a, b])
        assert a.asleep

    def test_a_set_that_cannot_wake_whole_sleeps_on(self) -> None:
        room = Room(2)
        a, b, c = map(room.part, "abc")
        for part in (a, b):
            room.residency.use(part)
        room.residency.sleep([a, b])
        room.residency.use(c)
        let_go = room.residency.hold([c])
        with pytest.raises(Shortfall):
            room.residency.wake([a, b])
        assert (a.asleep, b.asleep) == (True, True)
        assert room.names == {"c"}
        let_go()
        room.residency.wake([a, b])
        assert room.names == {"a", "b"}

    def test_more_than_fits_at_once_may_sleep_and_wake(self) -> None:
        room = Room(1)
        a, b = map(room.part, "ab")
        for part in (a, b):
            room.residency.use(part)
        room.residency.sleep([a, b])
        room.residency.wake([a, b])
        assert room.names == {"b"}
        assert room.residency.use(a)

    def test_only_what_slept_is_brought(self) -> None:
        room = Room(3)
        a, b, never = room.part("a"), room.part("b"), room.part("never")
        room.residency.use(a)
        room.residency.sleep([a, never])
        room.residency.wake([a, b, never])
        assert room.loads == {"a": 2}
        assert room.residency.use(never)


def test_the_snapshot_says_what_is_where() -> None:
    room = Room(1)
    a, b = map(room.part, "ab")
    for part in (a, b):
        room.residency.use(part)
    room.clock.now_s += 5
    with room.residency.budget.claim("graphs", 3):
        found = room.residency.snapshot()
    assert (found.device, found.limit.why, found.resident_bytes) == ("cpu", "the test", SIZE_BYTES)
    assert found.reserved == {"graphs": 3}
    shown = {each.component: (each.place, each.idle_s, each.loads) for each in found.residents}
    assert shown == {"a": (Place.ABSENT, 6, 1), "b": (Place.DEVICE, 5, 1)}
    assert {each.size_bytes for each in found.residents} == {SIZE_BYTES}


def test_memory_stays_flat_over_a_thousand_uses_of_three_in_the_room_of_two() -> None:
    room = Room(2)
    parts = [room.part(name) for name in "abc"]
    weights = [room.residency.use(part).weight.clone() for part in parts]
    for turn in range(1000):
        with room.residency.turn:
            used = room.residency.use(parts[turn % 3])
            assert torch.equal(used.weight, weights[turn % 3])
            del used
        assert room.residency.budget.resident.n_bytes <= 2 * SIZE_BYTES
