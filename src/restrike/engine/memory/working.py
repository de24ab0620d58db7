"""One phase of a request at work on a device: room made for what it is known to take, or its need measured.

It runs nothing itself; whoever holds the device's turn does, inside the context.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from restrike.engine.memory.meters import Meter, metered
from restrike.engine.memory.peaks import Need, Peaks, Phase
from restrike.engine.memory.residency import Residency, Usage


@contextmanager
def working(residency: Residency, peaks: Peaks, phase: Phase) -> Iterator[None]:
    """Do the work of a phase inside, under the turn.

    The first time measures it, if nothing fails. Later its activations are set aside for as long as it
    lasts, and what it used at once stays on the device from its beginning.

    Raises:
        Shortfall: what is in use leaves too little.
    """
    known = peaks.of(phase)
    if known is None:
        with metered(residency.device) as meter, residency.watching(meter.aside) as usage:
            yield
        peaks.remember(phase, _need(meter, usage))
        return
    if sum(part.size_bytes for part in known.used) <= known.components_bytes:
        residency.keep(known.used)
    with residency.room(f"{phase.name} activations", known.activations_bytes), residency.watching() as usage:
        yield
    if not usage.parts <= known.used:
        # It took another way this time: what was measured is not all that it can need.
        peaks.forget(phase)


def _need(meter: Meter, usage: Usage) -> Need:
    return Need(
        activations_bytes=meter.peak_bytes,
        kept_bytes=meter.kept_bytes,
        components_bytes=usage.most_bytes,
        used=frozenset(usage.parts),
    )
