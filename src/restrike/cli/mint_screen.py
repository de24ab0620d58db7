"""What a person sees on stderr while a mint goes on: the phase, its entry, and what has landed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status

from restrike.cli.interrupts import on_interrupt
from restrike.mint.events import EntryFailed, EntryLanded, MintEvent, PhaseBegan, PhaseEnded

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
# Shorter phases are told by the line that moves alone.
_WORTH_A_LINE_S = 1.0


class MintScreen:
    """Watches a mint: a line for what took long, and one for each entry that landed or failed."""

    def __init__(self, console: Console, status: Status | None) -> None:
        self._console, self._status = console, status
        self._stopped = False

    def show(self, event: MintEvent) -> None:
        """Show one event."""
        match event:
            case PhaseBegan():
                self._move(f"{_WORDS[event.phase]} {event.entry or ''}".strip())
            case PhaseEnded() if event.seconds >= _WORTH_A_LINE_S:
                words = f"{_WORDS[event.phase]} {event.entry or ''}".strip()
                self._console.print(f"{words}: {event.seconds:.1f} s", style="dim", markup=False)
            case EntryLanded():
                self._console.print(f"landed {event.entry} ({event.how})", markup=False)
            case EntryFailed():
                self._console.print(f"failed {event.entry} in {event.phase}", style="red", markup=False)
            case _:
                pass

    def cancelled(self) -> bool:
        """Whether the user asked to stop."""
        return self._stopped

    def stop(self) -> None:
        """The user asks to stop; safe within a signal handler."""
        self._stopped = True

    def _move(self, words: str) -> None:
        if self._status is not None:
            self._status.update(words)


@contextmanager
def screen() -> Iterator[MintScreen]:
    """The screen that stderr allows; the first interrupt within cancels the mint."""
    console = Console(stderr=True, highlight=False)
    status = console.status("starting") if console.is_terminal and not console.is_dumb_terminal else None
    shown = MintScreen(console, status)
    with on_interrupt(shown.stop):
        if status is None:
            yield shown
        else:
            with status:
                yield shown
