"""Submitted requests on one thread of their own: a few run side by side, the others wait in their order.

The thread lives while there is work and a little longer. It is the only one that advances them; nobody who
submits, watches or cancels ever waits for a step.
"""

from __future__ import annotations

import atexit
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from restrike.engine.events import TERMINAL, Event, Failed, Stopped
from restrike.engine.requests import ReadyRequest
from restrike.engine.scheduling.rounds import Rounds
from restrike.engine.scheduling.states import State
from restrike.engine.scheduling.submitted import Submitted
from restrike.errors import Cancelled, NotFound, Refused, RestrikeError, typed

LINGER_S = 5.0
"""How long the thread waits for more work before it ends and lets go of the engine."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """What is remembered of a request that ended: not its pictures, which belong to who submitted it."""

    id: str
    card: str
    state: State
    error: RestrikeError | None
    seconds: float
    """From being submitted to its end."""


class Scheduler:
    """Runs up to `concurrency` submitted requests side by side and remembers the last `history` that ended.

    `changed` is the condition of the engine's door, so that one wait sees whatever may let a request go on.
    """

    def __init__(
        self,
        make_rounds: Callable[[], Rounds],
        changed: threading.Condition,
        *,
        concurrency: int,
        history: int = 256,
        linger_s: float = LINGER_S,
    ) -> None:
        self._make_rounds, self._changed = make_rounds, changed
        self._concurrency, self._linger_s = concurrency, linger_s
        self._waiting: deque[Submitted] = deque()
        self._in_flight: dict[str, Submitted] = {}
        self._since_s: dict[str, float] = {}
        self._ended: deque[Record] = deque(maxlen=history)
        self._ids = (f"request-{number}" for number in itertools.count(1))
        self._thread: threading.Thread | None = None
        self._closed = False

    def submit(self, request: ReadyRequest, id: str | None = None) -> Submitted:
        """Let a request wait for its turn; returns at once.

        Raises:
            Refused: a request of that id is in flight, or the scheduler was closed.
        """
        with self._changed:
            if self._closed:
                raise Refused("the engine was closed and takes no more requests; make another one")
            name = next(self._ids) if id is None else id
            if name in self._in_flight:
                raise Refused(f"a request with the id '{name}' is in flight; give this one another id")
            submitted = Submitted(name, request, self._cancel)
            self._in_flight[name] = submitted
            self._since_s[name] = time.monotonic()
            self._waiting.append(submitted)
            self._wake()
            return submitted

    def find(self, id: str) -> Submitted:
        """The request of that id that has not ended; raises NotFound."""
        with self._changed:
            if id not in self._in_flight:
                raise NotFound(f"no request with the id '{id}' is in flight")
            return self._in_flight[id]

    @property
    def records(self) -> tuple[Record, ...]:
        """The requests that ended last, oldest first."""
        with self._changed:
            return tuple(self._ended)

    @property
    def waiting(self) -> int:
        """How many have not begun."""
        with self._changed:
            return len(self._waiting)

    def drain(self) -> None:
        """Take no more requests, and return when all have ended."""
        self._end_thread()

    def close(self) -> None:
        """Take no more requests, cancel all, and return when they have ended; further calls do nothing."""
        with self._changed:
            self._closed = True
            for submitted in list(self._in_flight.values()):
                self._cancel(submitted)
        self._end_thread()

    def _end_thread(self) -> None:
        with self._changed:
            self._closed = True
            thread = self._thread
            self._changed.notify_all()
        if thread is not None:
            thread.join()

    def _wake(self) -> None:
        if self._thread is None:
            # Daemonic, so that a program which forgets to close can end; `close` then runs at its exit.
            self._thread = threading.Thread(target=self._drive, name="restrike-engine", daemon=True)
            atexit.register(self.close)
            self._thread.start()
        self._changed.notify_all()

    def _cancel(self, submitted: Submitted) -> bool:
        with self._changed:
            if submitted.state.ended:
                return False
            submitted.request.cancellation.cancel()
            if submitted in self._waiting:
                self._waiting.remove(submitted)
                self._happened(submitted, submitted.request.started())
                self._happened(submitted, Stopped(error=Cancelled("cancelled before it began")))
            self._changed.notify_all()
            return True

    def _happened(self, submitted: Submitted, event: Event) -> None:
        with self._changed:
            submitted.happened(event)
            if not isinstance(event, TERMINAL):
                return
            del self._in_flight[submitted.id]
            self._ended.append(
                Record(
                    id=submitted.id,
                    card=submitted.request.resident.card.name,
                    state=submitted.state,
                    error=event.error if isinstance(event, Failed | Stopped) else None,
                    seconds=time.monotonic() - self._since_s.pop(submitted.id),
                )
            )

    def _drive(self) -> None:
        rounds = self._make_rounds()
        while self._has_work(rounds):
            try:
                for name, event in itertools.chain(rounds.round(), rounds.wait()):
                    self._happened(self._in_flight[str(name)], event)
            except BaseException as error:
                # Such as SystemExit out of a checkpoint's own code: it ends requests and never this thread.
                self._all_failed(rounds, typed(error))

    def _has_work(self, rounds: Rounds) -> bool:
        """Fill up to the cap; without work, wait for some. False when the thread is to end."""
        with self._changed:
            while True:
                while self._waiting and len(rounds.names) < self._concurrency:
                    submitted = self._waiting.popleft()
                    rounds.add(submitted.id, submitted.request)
                if rounds.names:
                    return True
                if self._closed or not self._changed.wait_for(self._is_needed, self._linger_s):
                    self._thread = None
                    atexit.unregister(self.close)
                    return False

    def _is_needed(self) -> bool:
        return bool(self._waiting) or self._closed

    def _all_failed(self, rounds: Rounds, error: RestrikeError) -> None:
        with suppress(Exception):  # letting go may fail for the reason that is told already
            rounds.close()
        with self._changed:
            for submitted in [each for each in self._in_flight.values() if each not in self._waiting]:
                self._happened(submitted, Failed(error=error))
