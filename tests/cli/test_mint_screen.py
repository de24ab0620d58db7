"""What is told on stderr while a mint goes on."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

from rich.console import Console

from restrike.cli.mint_screen import MintScreen
from restrike.mint.events import (
    EntryFailed,
    EntryLanded,
    MintEvent,
    MintPhase,
    PhaseBegan,
    PhaseEnded,
    Planned,
)
from restrike.mint.parent import Pulse


class Clock:
    """Moves when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def screened(clock: Clock | None = None) -> tuple[MintScreen, io.StringIO]:
    out = io.StringIO()
    return MintScreen(Console(file=out, width=200), None, clock=clock or Clock()), out


def pulse(**changes: Any) -> Pulse:
    calm = Pulse(elapsed_s=50, budget_s=None, quiet_s=0.2, stalled_s=300, memory_bytes=3 << 20)
    return replace(calm, **changes)


def test_a_log_has_a_line_for_each_phase_what_took_long_what_landed_and_what_failed() -> None:
    screen, out = screened()
    for event in EVENTS:
        screen.show(event)
    assert out.getvalue().splitlines() == [
        "loading",
        "compiling a [b] (1 of 2)",
        "compiling a [b]: 31.0 s",
        "landed a [b] (published)",
        "proving against eager c (2 of 2)",
        "failed c in prove",
    ]


EVENTS: tuple[MintEvent, ...] = (
    PhaseBegan(phase=MintPhase.LOAD, at=0),
    PhaseEnded(phase=MintPhase.LOAD, seconds=0.2, peak_bytes=1),
    Planned(entries=("a [b]", "c")),
    PhaseBegan(phase=MintPhase.COMPILE, at=1, entry="a [b]"),
    PhaseEnded(phase=MintPhase.COMPILE, seconds=31.04, peak_bytes=1, entry="a [b]"),
    EntryLanded(entry="a [b]", key="1", how="published"),
    PhaseBegan(phase=MintPhase.PROVE, at=40, entry="c"),
    EntryFailed(entry="c", phase=MintPhase.PROVE, outcome="refused", kind="X", message="no"),
)


def test_a_log_hears_every_twenty_seconds_that_a_phase_goes_on_and_how_much_is_left() -> None:
    clock = Clock()
    screen, out = screened(clock)
    screen.show(PhaseBegan(phase=MintPhase.COMPILE, at=0, entry="a"))
    for second in range(65):
        clock.now = second
        screen.working(pulse(budget_s=None if second < 30 else 600.0, quiet_s=30 if second > 50 else 0.2))
    assert out.getvalue().splitlines() == [
        "compiling a",
        "compiling a: at work for 20 s, holds 3 MiB",
        "compiling a: at work for 40 s, holds 3 MiB; 50 of 600 s are spent",
        "compiling a: no sign of work for 30 s, is ended at 300 s; 50 of 600 s are spent",
    ]


def test_a_terminal_has_one_line_that_moves() -> None:
    out = io.StringIO()
    console = Console(file=out, width=200)
    status, clock = console.status("starting"), Clock()
    screen = MintScreen(console, status, clock=clock)
    screen.show(PhaseBegan(phase=MintPhase.COMPILE, at=0, entry="a"))
    assert status.status == "compiling a"
    clock.now = 3.0
    screen.working(pulse())
    assert status.status == "compiling a: at work for 3 s, holds 3 MiB"
    assert out.getvalue() == ""


def test_mints_side_by_side_are_told_apart_and_stop_together() -> None:
    screen, out = screened()
    both = [screen.named(name) for name in ("aot", "dynamo")]
    for each in both:
        each.show(PhaseBegan(phase=MintPhase.SEAL, at=0, entry="a"))
        each.show(EntryLanded(entry="a", key="1", how="published"))
    assert out.getvalue().splitlines() == [
        "aot: sealing a",
        "aot: landed a (published)",
        "dynamo: sealing a",
        "dynamo: landed a (published)",
    ]
    screen.stop()
    assert all(each.cancelled() for each in both)


def test_an_interrupt_cancels() -> None:
    screen, _ = screened()
    assert not screen.cancelled()
    screen.stop()
    assert screen.cancelled()
