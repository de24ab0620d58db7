"""One phase of a request at work on a device: room made for what it is known to take, or its need measured.

It runs nothing itself; whoever has the device's turn does, inside the context.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType

from restrike.engine.memory.meters import metered
from restrike.engine.memory.peaks import Need, Peaks, Phase
from restrike.engine.memory.residency import Residency


def working(residency: Residency, peaks: Peaks, phase: Phase) -> AbstractContextManager[None]:
    """A context for the work of a phase, in a turn of the device.

    The first time measures it, if nothing fails. Later its activations are set aside for as long as it
    lasts, and what it used at once stays on the device from its beginning; entering raises Shortfall when
    what is in use leaves too little.
    """
    known = peaks.of(phase)
    return _measured(residency, peaks, phase) if known is None else _Known(residency, peaks, phase, known)


@contextmanager
def _measured(residency: Residency, peaks: Peaks, phase: Phase) -> Iterator[None]:
    with residency.turn, metered(residency.device) as meter:
        usage = residency.measure(meter.aside)
        try:
            yield
        finally:
            residency.watch()
    need = Need(
        activations_bytes=meter.peak_bytes,
        kept_bytes=meter.kept_bytes,
        components_bytes=usage.most_bytes,
        used=frozenset(usage.parts),
    )
    peaks.remember(phase, need)


class _Known:
    """A class and no generator: it is entered at every step."""

    def __init__(self, residency: Residency, peaks: Peaks, phase: Phase, need: Need) -> None:
        self._residency, self._peaks, self._phase, self._need = residency, peaks, phase, need
        self._what = f"phase '{phase.name}'"

    def __enter__(self) -> None:
        residency, need = self._residency, self._need
        turn = residency.turn.__enter__()
        try:
            if sum(part.size_bytes for part in need.used) <= need.components_bytes:
                residency.keep(need.used)
            self._usage = residency.watch()
            # The last that can fail, so that there is nothing to give back when it does.
            self._room = residency.room(self._what, need.activations_bytes)
        except BaseException:
            turn.__exit__(None, None, None)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._room.release()
            if not self._usage.parts <= self._need.used:
                # It took another way this time: what was measured is not all that it can need.
                self._peaks.forget(self._phase)
        finally:
            self._residency.turn.__exit__(kind, error, trace)
