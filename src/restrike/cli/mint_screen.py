"""What a person sees on stderr while a mint goes on: its phase and entry, that it is at work, what landed.

On a terminal one line moves; elsewhere (a log) each phase has a line when it begins, and more while it lasts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event

from rich.console import Console
from rich.status import Status

from restrike.cli.interrupts import on_interrupt
from restrike.mint.events import EntryFailed, EntryLanded, MintEvent, PhaseBegan, PhaseEnded, Planned
from restrike.mint.parent import Pulse

_WORDS = {
    "load": "loading",
    "warmup_forward": "running the model once, eagerly",
    "trace_graph": "tracing",
    "compile": "compiling",
    "seal": "sealing",
    "prove": "proving against eager",
    "publish": "publishing",
    "finalize": "finishing",
}
# On a terminal, shorter phases are told by the line that moves alone.
_WORTH_A_LINE_S = 1.0
_EVERY_S = 20.0
"""How often a log is told that a phase goes on."""
_QUIET_S = 10.0
"""After so long without a sign of work, that is what is told."""


class MintScreen:
    """Watches a mint, which may have a name among others that share the console."""

    def __init__(
        self,
        console: Console,
        status: Status | None,
        *,
        name: str = "",
        stopped: Event | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console, self._status, self._clock = console, status, clock
        self._prefix = f"{name}: " if name else ""
        self._stopped = stopped or Event()
        self._places: dict[str, str] = {}
        self._phase = ""
        self._began = self._told = clock()

    def named(self, name: str) -> MintScreen:
        """The screen of another mint that goes on beside, stopped with this one."""
        return MintScreen(self._console, self._status, name=name, stopped=self._stopped, clock=self._clock)

    def show(self, event: MintEvent) -> None:
        """Show one event."""
        match event:
            case Planned():
                self._plan(event.entries)
            case PhaseBegan():
                self._begin(f"{self._prefix}{_WORDS[event.phase]} {self._place(event.entry)}".strip())
            case PhaseEnded() if event.seconds >= _WORTH_A_LINE_S:
                words = f"{self._prefix}{_WORDS[event.phase]} {event.entry or ''}".strip()
                self._console.print(f"{words}: {event.seconds:.1f} s", style="dim", markup=False)
            case EntryLanded():
                self._console.print(f"{self._prefix}landed {event.entry} ({event.how})", markup=False)
            case EntryFailed():
                failed = f"{self._prefix}failed {event.entry} in {event.phase}"
                self._console.print(failed, style="red", markup=False)
            case _:
                pass

    def working(self, pulse: Pulse) -> None:
        """Show that the phase goes on, by what the mint's processes show of themselves."""
        now = self._clock()
        words = f"{self._phase}: {_going(now - self._began, pulse)}"
        if self._status is not None:
            self._status.update(words)
        elif now - self._told >= _EVERY_S:
            self._told = now
            self._console.print(words, style="dim", markup=False)

    def cancelled(self) -> bool:
        """Whether the user asked to stop."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """The user asks to stop; safe within a signal handler."""
        self._stopped.set()

    def _plan(self, entries: tuple[str, ...]) -> None:
        self._places = {entry: f"{entry} ({at} of {len(entries)})" for at, entry in enumerate(entries, 1)}

    def _place(self, entry: str | None) -> str:
        return "" if entry is None else self._places.get(entry, entry)

    def _begin(self, words: str) -> None:
        self._phase = words
        self._began = self._told = self._clock()
        if self._status is not None:
            self._status.update(words)
        else:
            self._console.print(words, style="dim", markup=False)


def _going(lasts_s: float, pulse: Pulse) -> str:
    """How a phase goes on that lasts so long; the budget is of the whole attempt."""
    if pulse.quiet_s >= _QUIET_S:
        told = f"no sign of work for {pulse.quiet_s:.0f} s, is ended at {pulse.stalled_s:.0f} s"
    else:
        told = f"at work for {lasts_s:.0f} s, holds {pulse.memory_bytes / (1 << 20):.0f} MiB"
    if pulse.budget_s is None:
        return told
    return f"{told}; {pulse.elapsed_s:.0f} of {pulse.budget_s:.0f} s are spent"


@contextmanager
def screen() -> Iterator[MintScreen]:
    """The screen that stderr allows; the first interrupt within cancels the mint."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    status = console.status("starting") if console.is_terminal and not console.is_dumb_terminal else None
    shown = MintScreen(console, status)
    with on_interrupt(shown.stop):
        if status is None:
            yield shown
        else:
            with status:
                yield shown
