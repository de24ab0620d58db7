"""The two pipes between a server and a worker: orders come in, a byte goes out when something happened.

They carry no facts; those are in the database. A server that dies closes its end, and the worker ends.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress

LOOK, DRAIN, STOP = b"l", b"d", b"s"
HAPPENED = b"."
ORPHANED = 70
"""The exit status of a worker whose server is gone."""


class Orders:
    """What the server said: look at the queue, end after the running job, or stop it and end.

    `draining` and `stopping` stay set; `look` and `check` are set by every order, for whoever waits on them.
    """

    def __init__(self) -> None:
        self.draining = threading.Event()
        self.stopping = threading.Event()
        self.look = threading.Event()
        self.check = threading.Event()

    def give(self, order: bytes) -> None:
        """Take note of orders."""
        if DRAIN in order or STOP in order:
            self.draining.set()
        if STOP in order:
            self.stopping.set()
        self.check.set()
        self.look.set()

    def listen(self, descriptor: int) -> None:
        """Take orders on a thread of its own until the server is gone; then this process ends at once."""
        threading.Thread(target=self._listen, args=(descriptor,), name="orders", daemon=True).start()

    def _listen(self, descriptor: int) -> None:
        while order := os.read(descriptor, 64):
            self.give(order)
        # No clean-up could be better than what recovery does after a kill.
        os._exit(ORPHANED)


class Nudges:
    """Tells the server that there is something new to read."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor

    def give(self) -> None:
        """Nudge; a server that does not read has been nudged often enough."""
        with suppress(BlockingIOError, BrokenPipeError):
            os.write(self._descriptor, HAPPENED)
