"""Counters of several cards and checkpoints: told in few words, by name, and never falling."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from restrike.engine.capture.counters import Break, CaptureCounters, CaptureReport, Tally, kinds
from restrike.engine.compiled.counters import CompiledCounters, CompiledReport
from restrike.engine.counts import CardCounters, Executed, by_card, together
from restrike.engine.reasons import OTHER, brief


def test_checkpoints_of_one_card_are_one() -> None:
    one = CardCounters(
        card="a",
        cells=CompiledCounters(armed=1, executed=4, eager={"x": 1, "y": 2}),
        captures=CaptureCounters(captures=1, replays=5, graphs=2, armed=1, bytes=8),
    )
    two = CardCounters(
        card="a",
        cells=CompiledCounters(executed=2, eager={"y": 3}, refused={"no room": 1}),
        captures=CaptureCounters(eager_breaks={"off": 1}, evictions={"sleep": 1}, bytes=1),
    )
    other = CardCounters(card="b", cells=CompiledCounters(executed=9))
    assert by_card([one, other, two]) == (
        CardCounters(
            card="a",
            cells=CompiledCounters(armed=1, executed=6, eager={"x": 1, "y": 5}, refused={"no room": 1}),
            captures=CaptureCounters(
                captures=1,
                replays=5,
                eager_breaks={"off": 1},
                evictions={"sleep": 1},
                graphs=2,
                armed=1,
                bytes=9,
            ),
        ),
        other,
    )


@given(given=st.lists(st.integers(0, 9), max_size=60))
def test_what_is_told_in_few_words_never_falls_and_loses_nothing(given: list[int]) -> None:
    tally, before = Tally(), dict[str, int]()
    for number in given:
        tally.broke(Break(kind="blocked", detail=str(number) * 300))
        breaks = tally.snapshot().eager_breaks
        told = brief(breaks, 4)
        assert sum(told.values()) == sum(breaks.values())
        assert all(told[reason] >= count for reason, count in before.items())
        assert len(told) <= 5
        assert max(map(len, told)) <= 200
        before = told
    assert OTHER in before or len(set(given)) <= 4


def test_generations_of_one_call_are_told_as_one() -> None:
    first = Executed(
        capture=CaptureReport(
            backend="tape", replays=3, eager_breaks={"warming": 1}, graphs=1, graph_bytes=4
        ),
        compiled=CompiledReport(cells={"k": 3}, eager={"x": 1}),
    )
    second = Executed(
        capture=CaptureReport(backend="tape", replays=4, eager_breaks={}, graphs=2, graph_bytes=8),
        compiled=CompiledReport(cells={"k": 2, "l": 2}),
    )
    both = together([first, second])
    assert both is not None
    assert both.told == (
        "cells answered 7 of 8 forwards (k 5, l 2); eager: x (1)",
        "capture tape answered 7 of 8 steps; eager: warming (1)",
    )
    assert (together([]), together([first])) == (None, first)


def test_kinds_leave_out_what_is_particular() -> None:
    assert kinds({"warming": 1, "blocked: a: 1": 2, "blocked: b": 3}) == {"warming": 1, "blocked": 5}
