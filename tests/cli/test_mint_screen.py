"""What is told on stderr while a mint goes on."""

from __future__ import annotations

import io

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


def shown(*events: MintEvent) -> list[str]:
    out = io.StringIO()
    screen = MintScreen(Console(file=out, width=200), None)
    for event in events:
        screen.show(event)
    return out.getvalue().splitlines()


def test_what_took_long_what_landed_and_what_failed_each_get_a_line() -> None:
    lines = shown(
        PhaseBegan(phase=MintPhase.LOAD, at=0),
        PhaseEnded(phase=MintPhase.LOAD, seconds=0.2, peak_bytes=1),
        Planned(entries=("a [b]", "c")),
        PhaseEnded(phase=MintPhase.COMPILE, seconds=31.04, peak_bytes=1, entry="a [b]"),
        EntryLanded(entry="a [b]", key="1", how="published"),
        EntryFailed(entry="c", phase=MintPhase.PROVE, outcome="refused", kind="X", message="no"),
    )
    assert lines == ["compiling a [b]: 31.0 s", "landed a [b] (published)", "failed c in prove"]


def test_an_interrupt_cancels() -> None:
    screen = MintScreen(Console(file=io.StringIO()), None)
    assert not screen.cancelled()
    screen.stop()
    assert screen.cancelled()
