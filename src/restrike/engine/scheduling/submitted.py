"""A request that runs on its own: watch it, wait for it, cancel it, from any thread or an asyncio loop.

Nothing here advances the work; the scheduler's thread does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from typing import Any

from restrike.engine.events import TERMINAL, Event, Succeeded
from restrike.engine.requests import ReadyRequest
from restrike.engine.result import Generation
from restrike.engine.scheduling.mailbox import Mailbox
from restrike.engine.scheduling.states import State, state_after
from restrike.errors import Shortfall


class Submitted:
    """A request by its id.

    Iterating, with `for` or `async for`, takes its events: `Started` first, one terminal event last. Each
    is handed out once. Leaving the iteration before the terminal event cancels the request, and so does
    cancelling the asyncio task that iterates. `result()` and `await` take no events and cancel nothing.
    """

    def __init__(self, id: str, request: ReadyRequest, cancel: Callable[[Submitted], bool]) -> None:
        self.id = id
        self.request = request
        self.state = State.WAITING
        self._cancel = cancel
        self._mailbox = Mailbox()
        self._end: Future[Generation] = Future()
        # From here on the future cannot be cancelled by those who wait for it; `cancel` is the one way.
        self._end.set_running_or_notify_cancel()

    def happened(self, event: Event) -> None:
        """Called by the scheduler for each event, the terminal one last."""
        self.state = state_after(event, self.state)
        if isinstance(event, Succeeded):
            self._end.set_result(event.generation)
        elif isinstance(event, TERMINAL):
            self._end.set_exception(event.error)
        self._mailbox.put(event)

    def cancel(self) -> bool:
        """Stop it at its next step boundary, or before it begins; False when it has ended already."""
        return self._cancel(self)

    def result(self, timeout_s: float | None = None) -> Generation:
        """Wait for the end; raises what made it fail or stop.

        Raises:
            Shortfall: it has not ended within `timeout_s`; it goes on.
        """
        try:
            return self._end.result(timeout_s)
        except NotYet as error:
            if self._end.done():
                raise
            raise Shortfall(
                f"request '{self.id}' has not ended within {timeout_s:g} s; it goes on"
            ) from error

    def __await__(self) -> Generator[Any, None, Generation]:
        return asyncio.wrap_future(self._end).__await__()

    def __iter__(self) -> Generator[Event, None, None]:
        try:
            while (event := self._mailbox.take()) is not None:
                yield event
        finally:
            self.cancel()

    async def __aiter__(self) -> AsyncGenerator[Event, None]:
        try:
            while (event := await self._mailbox.take_soon()) is not None:
                yield event
        finally:
            self.cancel()
