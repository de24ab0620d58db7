"""The turn of one device: whoever holds it computes there, alone, and pins what it uses until it ends.

It is re-entrant. Lock order: the turn, then a card's own lock, then what a capturer or the budget hold; who
holds one of the later ones never asks for an earlier one.
"""

from __future__ import annotations

import threading
from types import TracebackType

from restrike.engine.memory.parts import Part


class Turn:
    """A re-entrant lock with a memory for what is used under it.

    A turn inside a turn pins for itself: what is used in it may go when it ends, though the outer one lasts.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        """For what must be alone on the device and pins nothing."""
        self._frames: list[set[Part]] = []

    def __enter__(self) -> Turn:
        self.lock.acquire()
        self._frames.append(set())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._frames.pop()
        self.lock.release()

    def pin(self, used: Part) -> None:
        """Keep it until the innermost turn ends; by the holder of the lock, without effect outside a turn."""
        if self._frames:
            self._frames[-1].add(used)

    @property
    def pinned(self) -> set[Part]:
        """What the holder of the lock uses at once."""
        return set().union(*self._frames)
