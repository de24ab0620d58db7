"""Writes a job's events from a thread of its own, in order, many in one transaction when they come fast.

The job's steps never wait for the disk. What is told is kept before the job's end is.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from restrike.errors import NotFound, RestrikeError, Shortfall
from restrike.server.jobs.model import Job
from restrike.server.jobs.queue import Queue

Told = tuple[str, Mapping[str, Any]]
Later = Callable[[], Told]
"""Makes an event when its turn comes, off the job's thread."""
_GATHER_S = 0.03
_TRIES = 4
_PAUSE_S = 1.0


class Telling:
    """The events of one attempt; `lost` is called, once, when the attempt is no longer its worker's."""

    def __init__(self, jobs: Queue, job: Job, nudge: Callable[[], None], lost: Callable[[], None]) -> None:
        self._jobs, self._job, self._nudge, self._lost = jobs, job, nudge, lost
        self._waiting: queue.SimpleQueue[Later | None] = queue.SimpleQueue()
        self._failure: RestrikeError | None = None
        self.last_s = time.monotonic()
        """When something was told last, for whoever looks out for silence."""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telling", daemon=True)
        self._thread.start()

    def tell(self, kind: str, data: Mapping[str, Any]) -> None:
        """Tell something; returns at once."""
        self.later(lambda: (kind, data))

    def aside(self, kind: str, data: Mapping[str, Any]) -> None:
        """Tell something that is no sign of life of the job."""
        self._waiting.put(lambda: (kind, data))

    def later(self, made: Later) -> None:
        """Tell what `made` gives, which is called on the thread that writes."""
        self.last_s = time.monotonic()
        self._waiting.put(made)

    def close(self) -> None:
        """Return when all was written; raises what kept it from being."""
        self._closing.set()
        self._waiting.put(None)
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        ended = False
        while not ended:
            batch = [self._waiting.get()]
            while not self._waiting.empty():
                batch.append(self._waiting.get())
            ended = batch[-1] is None
            self._write([made() for made in batch if made is not None])
            # Fast steps are told a few at once: a writer that never pauses keeps SQLite from all others.
            self._closing.wait(_GATHER_S)

    def _write(self, happened: list[Told]) -> None:
        if not happened:
            return
        left, unsure = _TRIES, False
        while self._failure is None:
            try:
                # When the database went away within a write, only it knows whether that was kept.
                kept = unsure and self._jobs.has_told(self._job.id, happened)
                if not kept and not self._jobs.told(self._job.id, self._job.attempt, happened):
                    self._lost()
                self._nudge()
                return
            except Shortfall:
                # A database that is away, or a disk that is full, is waited for: the job has done no wrong.
                unsure = True
                time.sleep(_PAUSE_S)
            except NotFound:
                self._lost()  # Nobody asks for the job any more.
                return
            except RestrikeError as error:
                left -= 1
                if left:
                    time.sleep(_PAUSE_S)
                else:
                    self._failure = error
