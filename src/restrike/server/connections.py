"""Connections that say nothing are closed: a request's head comes within a time, or its place is another's.

uvicorn bounds how long a connection is idle between requests; this bounds the time before and within a head.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 10.0


class TimedHeads(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, with a limit on the time that a request's head takes."""

    _head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._look()

    def data_received(self, data: bytes) -> None:
        """Take bytes, of a head or of a body."""
        super().data_received(data)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._forget()
        super().connection_lost(exc)

    def _look(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget()
        elif self._head is None:
            # Bytes that come one by one do not put it off.
            self._head = self.loop.call_later(HEAD_S, self._close)

    def _forget(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _close(self) -> None:
        self._head = None
        if not self.transport.is_closing():
            self.transport.close()
