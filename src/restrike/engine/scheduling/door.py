"""The one door of an engine: requests pass all its gates or none, first come, first served.

It counts who is inside and who waits; it runs nothing and knows no request beyond what it asks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from contextlib import ExitStack
from dataclasses import dataclass, field

from restrike.engine.scheduling.gates import Ask, Gate
from restrike.errors import Shortfall

STALL_LIMIT_S = 60.0
"""How long a request waits while nobody is inside whose leaving could help it."""


@dataclass(kw_only=True, eq=False)
class Ticket:
    """A place in the line, later a place inside; `thread` is the one that drives the request."""

    ask: Ask
    thread: int
    since_s: float
    stopped_at: Gate | None = None
    line: Hashable = None
    inside: bool = False
    leaves: ExitStack = field(default_factory=ExitStack)


class Door:
    """Lets requests in and out; every method may be called from any thread.

    No request passes a gate at which an earlier one of its line waits. `changed` is notified whenever a
    request leaves.
    """

    def __init__(
        self,
        gates: tuple[Gate, ...] = (),
        *,
        stall_limit_s: float = STALL_LIMIT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.changed = threading.Condition()
        self._gates = gates
        self._stall_limit_s, self._clock = stall_limit_s, clock
        self._line: list[Ticket] = []
        self._inside: list[Ticket] = []

    def queue(self, ask: Ask) -> Ticket:
        """A place at the end of the line."""
        with self.changed:
            ticket = Ticket(ask=ask, thread=threading.get_ident(), since_s=self._clock())
            self._line.append(ticket)
            return ticket

    def enter(self, ticket: Ticket) -> bool:
        """Whether the request was let in, all gates or none.

        Raises:
            RestrikeError: a gate will never let it in; its place in the line is given up.
        """
        with self.changed:
            ahead = self._line[: self._line.index(ticket)]
            taken = {each.line for each in ahead if each.stopped_at is not None}
            with ExitStack() as entered:
                for gate in self._gates:
                    line = (id(gate), gate.line(ticket.ask))
                    leave = None if line in taken else self._asked(gate, ticket)
                    if leave is None:
                        ticket.stopped_at, ticket.line = gate, line
                        return False
                    entered.callback(leave)
                ticket.leaves = entered.pop_all()
            self._line.remove(ticket)
            self._inside.append(ticket)
            ticket.inside, ticket.stopped_at = True, None
            return True

    def _asked(self, gate: Gate, ticket: Ticket) -> Callable[[], None] | None:
        try:
            return gate.enter(ticket.ask)
        except BaseException:
            self._line.remove(ticket)
            self.changed.notify_all()
            raise

    def waiting_for(self, ticket: Ticket) -> str:
        """What a request in the line waits for, in one line."""
        gate = ticket.stopped_at
        return "its turn" if gate is None else gate.waiting_for(ticket.ask)

    def leave(self, ticket: Ticket) -> None:
        """Let a request out, or give up its place in the line; further calls do nothing."""
        with self.changed:
            if ticket in self._line:
                self._line.remove(ticket)
            if ticket in self._inside:
                self._inside.remove(ticket)
            try:
                ticket.leaves.close()
            finally:
                self.changed.notify_all()

    def wait(self, ticket: Ticket, seconds: float) -> None:
        """Wait until somebody leaves, for some seconds at most.

        Raises:
            Shortfall: all who are inside are driven by this very thread, or nobody has been inside for long.
        """
        with self.changed:
            if self._inside and all(each.thread == ticket.thread for each in self._inside):
                raise Shortfall(
                    f"a request waits for {self.waiting_for(ticket)}, which only requests that this same "
                    "thread advances could free; finish or close one of them first, or use submit"
                )
            if self._inside:
                ticket.since_s = self._clock()
            elif self._clock() - ticket.since_s > self._stall_limit_s:
                raise Shortfall(
                    f"nothing is running, and yet a request waits for {self.waiting_for(ticket)} "
                    f"for more than {self._stall_limit_s:g} s"
                )
            self.changed.wait(seconds)

    @property
    def counts(self) -> tuple[int, int]:
        """How many are inside, and how many wait."""
        with self.changed:
            return len(self._inside), len(self._line)
