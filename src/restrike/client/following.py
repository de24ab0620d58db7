"""A server's events, one after another, over as many connections as that takes. It changes nothing there."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

from restrike.client.results import event_of
from restrike.client.stream import Message, messages
from restrike.client.wire import Answer, Away, Wire, job_path
from restrike.errors import Crashed, NotFound, Shortfall
from restrike.server.jobs.model import JobEvent, JobState

PATIENCE_S = 60.0
"""How long a server may be away before following it ends."""
_PAUSES_S = (0.0, 0.1, 0.5, 1.0, 2.0)


class Following:
    """The events of one job, to its end, or of all jobs, without end; those after the number `after`.

    Without a number, a job's come from its first one, and those of all jobs from the newest that there is
    when the server is first asked.

    A connection that breaks is made anew, with the number of the last event seen, so none is lost and none
    comes twice. `close` ends it from any thread.
    """

    def __init__(
        self, wire: Wire, job: str | None, after: int | None, *, patience_s: float = PATIENCE_S
    ) -> None:
        self._wire, self._job, self._seen = wire, job, after
        self._patience_s = patience_s
        self._closed = threading.Event()
        self._answer: Answer | None = None

    @property
    def was_closed(self) -> bool:
        """Whether it was ended before what it follows."""
        return self._closed.is_set()

    def close(self) -> None:
        """End it now."""
        self._closed.set()
        if self._answer is not None:
            self._answer.cut()

    def __iter__(self) -> Iterator[JobEvent]:
        """The events; raises NotFound for an unknown job, and the last failure when patience has ended."""
        tries, waited_s = 0, 0.0
        while not self._closed.is_set():
            began = self._seen
            try:
                for event in self._once():
                    if self._closed.is_set():
                        return
                    tries, waited_s = 0, 0.0
                    yield event
                    if self._is_last(event):
                        return
                if self._job is not None and self._seen == began and self._has_ended(self._job):
                    return
            except (Crashed, Shortfall, NotFound) as error:
                is_answer = isinstance(error, NotFound) and not isinstance(error, Away)
                if self._closed.is_set():
                    return
                if is_answer or waited_s >= self._patience_s:
                    raise
            pause_s = _PAUSES_S[min(tries, len(_PAUSES_S) - 1)]
            self._closed.wait(pause_s)
            tries, waited_s = tries + 1, waited_s + pause_s

    def _once(self) -> Iterator[JobEvent]:
        path = "/api/events" if self._job is None else f"{job_path(self._job)}/events"
        headers = {"Accept": "text/event-stream"}
        if self._seen is not None:
            headers["Last-Event-ID"] = str(self._seen)
        with self._wire.open("GET", path, headers=headers) as answer:
            self._answer = answer
            if self._closed.is_set():
                return
            for message in messages(answer.lines()):
                event = _event(message)
                if event is None:
                    self._seen = _number(message) if self._seen is None else self._seen
                elif event.sequence > (self._seen or 0):
                    self._seen = event.sequence
                    yield event

    def _is_last(self, event: JobEvent) -> bool:
        return self._job is not None and event.kind == "state" and JobState(event.data["state"]).is_final

    def _has_ended(self, job: str) -> bool:
        return JobState(self._wire.ask("GET", job_path(job))["state"]).is_final


def _event(message: Message) -> JobEvent | None:
    """The event of a message; None for one that only says where the stream begins, or that it ends."""
    if message.kind != "message" or not message.data:
        return None
    return event_of(json.loads(message.data))


def _number(message: Message) -> int | None:
    """The number of an event that a stream begins after."""
    return int(message.id) if message.id is not None and message.id.isdecimal() else None
