"""Where a request stands between being asked for and its end."""

from __future__ import annotations

from enum import Enum

from restrike.engine.events import TERMINAL, Event, Failed, Started, Succeeded


class State(Enum):
    """The last three are ends."""

    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen."""
        return self not in (State.WAITING, State.RUNNING)


def state_after(event: Event, state: State) -> State:
    """Where a request stands once the event has happened."""
    if isinstance(event, Started):
        return State.RUNNING
    if not isinstance(event, TERMINAL):
        return state
    if isinstance(event, Succeeded):
        return State.SUCCEEDED
    return State.FAILED if isinstance(event, Failed) else State.STOPPED
