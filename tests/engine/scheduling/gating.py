"""Gates that count, and engines whose door has them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.engine.requests import StreamOptions
from restrike.engine.scheduling.door import Door
from restrike.engine.scheduling.gates import Ask, Gate
from restrike.engine.scheduling.scheduler import Scheduler
from restrike.errors import RestrikeError


@dataclass(eq=False)
class Slots:
    """Lets `size` requests in at a time, and notes how many came, left, and were inside at most.

    With `apart`, each prompt has a line of its own.
    """

    size: int = 1
    apart: bool = False
    refuses: RestrikeError | None = None
    inside: int = 0
    came: int = 0
    left: int = 0
    most: int = 0
    asked: list[str] = field(default_factory=list)
    let_in: list[str] = field(default_factory=list)

    def enter(self, ask: Ask) -> Callable[[], None] | None:
        self.asked.append(ask.arguments.prompt)
        if self.refuses is not None:
            raise self.refuses
        if self.inside >= self.size:
            return None
        self.let_in.append(ask.arguments.prompt)
        self.inside += 1
        self.came += 1
        self.most = max(self.most, self.inside)
        return self._leave

    def _leave(self) -> None:
        self.inside -= 1
        self.left += 1

    def line(self, ask: Ask) -> Hashable:
        return ask.arguments.prompt if self.apart else None

    def waiting_for(self, ask: Ask) -> str:
        return f"one of {self.size} places"


def gated(
    *gates: Gate, stall_limit_s: float = 60.0, concurrency: int = 8, batch_limit: int = 1, history: int = 256
) -> Engine:
    """An engine on the CPU with these gates in place of its own."""
    engine = Engine(device="cpu", batch_limit=batch_limit)
    engine._door = Door(gates, stall_limit_s=stall_limit_s)
    engine.scheduler = Scheduler(
        engine._rounds, engine._door.changed, concurrency=concurrency, history=history, linger_s=0.5
    )
    return engine


ASKING = Engine(device="cpu")


def ask(prompt: str = "a 1") -> Ask:
    """What a request of the card digits asks the gates."""
    return ASKING._ready("digits", Request(prompt=prompt), StreamOptions()).ask


def in_thread(run: Callable[[], object]) -> threading.Thread:
    """Runs on a thread of its own, already started."""
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread
