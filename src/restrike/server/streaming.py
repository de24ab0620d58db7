"""Server-sent events: what happens to one job or to all, from the database, which is the only buffer.

Every reader has a place of its own in the events and asks for what comes after it, so that none is lost over
a reconnect, a slow reader costs no memory, and one that went away costs nothing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.to_thread
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from restrike.errors import RestrikeError, Shortfall
from restrike.server.jobs.history import History
from restrike.server.jobs.model import JobEvent, JobState

POLL_S = 0.2
KEEP_ALIVE_S = 15.0
SEND_S = 30.0
STREAMS = 256
_AT_ONCE = 200
_log = logging.getLogger(__name__)


class News:
    """Tells those who wait that there are new events. Nudged when one is written; else it looks by itself."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._changed, self._nudged = anyio.Event(), anyio.Event()
        self._waiting = 0
        self.latest = 0
        self.streams = 0

    def nudge(self) -> None:
        """Look now: something was written. Called on the event loop."""
        self._nudged.set()

    async def run(self) -> None:
        """Look for new events until cancelled."""
        while True:
            with anyio.move_on_after(POLL_S):
                await self._nudged.wait()
            self._nudged = anyio.Event()
            if not self._waiting:
                continue
            try:
                latest = await anyio.to_thread.run_sync(self._history.last_sequence)
            except RestrikeError as error:  # a database that is away comes back
                _log.warning("events cannot be read: %s", error)
                continue
            if latest > self.latest:
                self.latest = latest
                self._changed.set()
                self._changed = anyio.Event()

    async def wait(self, seen: int, timeout_s: float) -> bool:
        """Wait until there is an event after `seen`; False when there was none for so long."""
        self._waiting += 1
        try:
            with anyio.move_on_after(timeout_s):
                while self.latest <= seen:
                    await self._changed.wait()
                return True
            return False
        finally:
            self._waiting -= 1


@dataclass(frozen=True, kw_only=True)
class Follow:
    """Which events a reader wants: of one job or of all, after a number; `shown` makes what it may see."""

    news: News
    history: History
    after: int
    job: str | None
    shown: Callable[[Any], Any]

    async def events(self) -> AsyncGenerator[JobEvent | None, None]:
        """The events in order, None for each pause; it ends after the last one of a job that has ended."""
        cursor = self.after
        while True:
            seen = self.news.latest
            found = await anyio.to_thread.run_sync(self._read, cursor)
            for event in found:
                yield event
                cursor = event.sequence
            if found:
                if self.job is not None and _is_last(found[-1]):
                    return
                continue
            if await anyio.to_thread.run_sync(self._has_ended):
                return
            if not await self.news.wait(seen, KEEP_ALIVE_S):
                yield None

    def _read(self, cursor: int) -> tuple[JobEvent, ...]:
        return self.history.events(after=cursor, job=self.job, limit=_AT_ONCE)

    def _has_ended(self) -> bool:
        """Whether nothing more comes: the job had ended before this reader came back."""
        return self.job is not None and self.history.has_ended(self.job)

    async def frames(self) -> AsyncIterator[bytes]:
        """The events as a browser's EventSource reads them.

        The number that they begin after comes first: whoever is cut off before any event goes on from there.
        """
        yield f"retry: 1000\nid: {self.after}\n: restrike\n\n".encode()
        async for event in self.events():
            yield b": still here\n\n" if event is None else _frame(event_view(event, self.shown))
        yield b"event: end\ndata: {}\n\n"


def event_view(event: JobEvent, shown: Callable[[Any], Any]) -> dict[str, Any]:
    """An event as all interfaces show it."""
    about = {"id": event.sequence, "job": event.job, "kind": event.kind, "time": event.time}
    return {**about, "data": shown(dict(event.data))}


def _frame(event: dict[str, Any]) -> bytes:
    return f"id: {event['id']}\ndata: {json.dumps(event)}\n\n".encode()


def _is_last(event: JobEvent) -> bool:
    state = event.data.get("state")
    return event.kind == "state" and state in tuple(JobState) and JobState(state).is_final


class EventStream(Response):
    """Sends frames as they come; a reader that takes none for too long is let go."""

    media_type = "text/event-stream"

    def __init__(self, follow: Follow) -> None:
        self._follow = follow
        self.status_code = 200
        self.background = None
        self.init_headers({"cache-control": "no-store", "x-accel-buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one reader until it or its job is done.

        Raises:
            Shortfall: as many readers as there may be are here; nothing was answered yet.
        """
        # Looked at and counted on the event loop without a pause between: no two readers get one place.
        if self._follow.news.streams >= STREAMS:
            raise Shortfall(
                f"{STREAMS} streams of events are open, which is all that there are; ask again later"
            )
        self._follow.news.streams += 1
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._until_gone, receive, group.cancel_scope)
                await self._send(send)
                group.cancel_scope.cancel()
        finally:
            self._follow.news.streams -= 1

    async def _send(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        try:
            async for frame in self._follow.frames():
                with anyio.move_on_after(SEND_S) as waited:
                    await send({"type": "http.response.body", "body": frame, "more_body": True})
                if waited.cancelled_caught:
                    return
        except (
            RestrikeError
        ) as error:  # a database that is away: the reader comes back, after what it has seen
            _log.warning("a stream of events ends early: %s", error.message)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _until_gone(self, receive: Receive, group: anyio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        group.cancel()
