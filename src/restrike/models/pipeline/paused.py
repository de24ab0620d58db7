"""A call on a thread of its own that stands still at each stop until it is told to go on.

The two threads take turns: one of them waits at any time, so nothing that they share needs a lock. Whatever
watches the operations of the caller's thread (a meter of memory) watches those of the call too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode


@dataclass(frozen=True)
class LoopBegun:
    """A loop of `total` steps is about to run; None when its length is not known."""

    total: int | None


@dataclass(frozen=True)
class StepDone:
    """A step has run; `latent` is what it left, if the pipeline shows it."""

    latent: Tensor | None


@dataclass(frozen=True)
class Returned:
    """The call is over and this is its value."""

    value: Any


Stop = LoopBegun | StepDone | Returned


class _Abandoned(BaseException):
    """Unwinds the call; not an Exception, so that no handler of the pipeline takes it for a failure."""


class PausedCall:
    """Runs `body` up to its next `pause` whenever `go_on` is called."""

    def __init__(self, body: Callable[[PausedCall], Any], name: str) -> None:
        self._body = body
        self._stop: Stop | BaseException | None = None
        self._abandoned = False
        self._watcher: TorchDispatchMode | None = None
        self._watched = ExitStack()
        self._may_run, self._has_stopped = threading.Semaphore(0), threading.Semaphore(0)
        # Daemonic, so that a stream which nobody closed cannot keep the program from ending.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def go_on(self) -> Stop:
        """Let the call run to its next stop; raises what the call raised."""
        self._watcher = _get_current_dispatch_mode()
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._may_run.release()
        self._has_stopped.acquire()
        stop = self._stop
        if isinstance(stop, Returned | BaseException):
            self._thread.join()
        if isinstance(stop, BaseException):
            raise stop
        assert stop is not None
        return stop

    def pause(self, stop: Stop) -> None:
        """Called by the body: report a stop and stand still."""
        self._watched.close()
        self._stop = stop
        self._has_stopped.release()
        self._may_run.acquire()
        if self._abandoned:
            raise _Abandoned
        self._watch()

    def _watch(self) -> None:
        if self._watcher is not None:
            self._watched.enter_context(self._watcher)

    def abandon(self) -> None:
        """Unwind the call where it stands, or at its next stop; returns when its thread is gone."""
        if self._thread.ident is not None and self._thread.is_alive():
            self._abandoned = True
            self._may_run.release()
            self._thread.join()

    def _run(self) -> None:
        # Gradient modes are a thread's own; no_grad is the mode that published pipelines run in.
        try:
            with torch.no_grad(), self._watched:
                self._watch()
                self._stop = Returned(self._body(self))
        except BaseException as error:
            self._stop = error
        self._has_stopped.release()
