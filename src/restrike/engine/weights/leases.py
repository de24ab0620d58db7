"""Who reads the weights of one card now, and under which adapters: shared by equals, exclusive to a change.

It counts and waits; it touches no weights.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from restrike.cards.adapters import Adapter
from restrike.cards.identity import AdapterIdentity
from restrike.errors import Refused

Stack = tuple[AdapterIdentity, ...]
"""Adapters in the order in which they act."""


def stack_of(adapters: tuple[Adapter, ...]) -> Stack:
    """What of settled adapters decides a result, in their order."""
    return tuple(adapter.identity for adapter in adapters)


class Leases:
    """The readers of one card; every method may be called from any thread."""

    def __init__(self, card: str) -> None:
        self._card = card
        self._freed = threading.Condition()
        self._threads: list[int] = []
        """Of each reader, the thread that took its lease."""
        self._stack: Stack = ()
        self._writers = 0
        """Those that write or wait to."""
        self._writing = False

    def share(self, stack: Stack) -> Callable[[], None] | None:
        """A lease under this stack, as what gives it back; None while others need the weights otherwise."""
        with self._freed:
            if self._writers or (self._threads and stack != self._stack):
                return None
            thread = threading.get_ident()
            self._stack = stack
            self._threads.append(thread)

        def leave() -> None:
            with self._freed:
                self._threads.remove(thread)
                self._freed.notify_all()

        return leave

    @property
    def idle(self) -> bool:
        """Whether nobody reads."""
        with self._freed:
            return not self._threads

    def waiting_for(self) -> str:
        """What a lease waits for, in one line."""
        if self._writers:
            return f"a sync of card '{self._card}'"
        held = f"{len(self._stack)} adapter(s)" if self._stack else "no adapter"
        return f"the requests with {held} on card '{self._card}'"

    @contextmanager
    def drained(self, what: str) -> Iterator[None]:
        """Wait until the last reader has left, and keep out new ones meanwhile and until it is over.

        Raises:
            Refused: a reader was let in by this very thread, so that waiting for it would never end.
        """
        with self._freed:
            if threading.get_ident() in self._threads:
                raise Refused(
                    f"{what} waits for a request that this same thread drives; finish or close that first, "
                    "or do it from another thread"
                )
            self._writers += 1
            try:
                self._freed.wait_for(lambda: not self._threads and not self._writing)
            except BaseException:
                self._writers -= 1
                self._freed.notify_all()
                raise
            self._writing = True
        try:
            yield
        finally:
            with self._freed:
                self._writers -= 1
                self._writing = False
                self._freed.notify_all()
