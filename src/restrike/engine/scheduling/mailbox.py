"""The events of one submitted request until somebody takes them, on a thread or on an asyncio loop.

Whoever puts an event never waits. Each event is handed out once.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from restrike.engine.events import TERMINAL, Event, PreviewReady

KEPT_PREVIEWS = 4


class Mailbox:
    """Keeps every event but previews, of which only the newest few wait to be taken.

    So it never holds more than the steps and pictures that its request has, however slow the taker is.
    """

    def __init__(self, *, kept_previews: int = KEPT_PREVIEWS) -> None:
        self._kept_previews = kept_previews
        self._arrived = threading.Condition()
        self._events: deque[Event] = deque()
        self._wakes: list[Callable[[], None]] = []
        self._over = False

    def put(self, event: Event) -> None:
        """Add an event and wake who waits for one."""
        with self._arrived:
            self._events.append(event)
            if isinstance(event, PreviewReady):
                self._drop_old_previews()
            self._wake_all()

    def _drop_old_previews(self) -> None:
        places = [place for place, each in enumerate(self._events) if isinstance(each, PreviewReady)]
        if len(places) > self._kept_previews:
            del self._events[places[0]]

    def _wake_all(self) -> None:
        self._arrived.notify_all()
        wakes, self._wakes = self._wakes, []
        for wake in wakes:
            wake()

    def take(self) -> Event | None:
        """The next event, waiting for it if need be; None after the terminal one."""
        with self._arrived:
            while not self._events and not self._over:
                self._arrived.wait()
            return self._taken()

    async def take_soon(self) -> Event | None:
        """The same on an asyncio loop, which goes on meanwhile."""
        while (arrival := self._arrival()) is not None:
            await arrival
        with self._arrived:
            return self._taken()

    def _taken(self) -> Event | None:
        event = self._events.popleft() if self._events else None
        if isinstance(event, TERMINAL):
            self._over = True
            self._wake_all()
        return event

    def _arrival(self) -> asyncio.Future[None] | None:
        with self._arrived:
            if self._events or self._over:
                return None
            loop = asyncio.get_running_loop()
            arrival: asyncio.Future[None] = loop.create_future()
            self._wakes.append(lambda: _wake(loop, arrival))
            return arrival


def _wake(loop: asyncio.AbstractEventLoop, arrival: asyncio.Future[None]) -> None:
    # A loop that was closed meanwhile has nobody left to wake.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(lambda: None if arrival.done() else arrival.set_result(None))
