"""Small real components under a residency: what the memory tests are about, without a model around them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import nn

from restrike.engine.memory.host import Host
from restrike.engine.memory.limits import Limit
from restrike.engine.memory.parts import Part
from restrike.engine.memory.residency import Residency

CPU = torch.device("cpu")
WIDTH = 16
SIZE_BYTES = 4 * (WIDTH * WIDTH + WIDTH)


def layer(seed: int = 0, width: int = WIDTH) -> nn.Linear:
    """A linear layer with weights of its own."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Linear(width, width).requires_grad_(False)


@dataclass
class Clock:
    """A clock that a test moves."""

    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Room:
    """A residency with room for `layers` layers, and what its parts were told."""

    layers: float
    host: Host | None = None
    clock: Clock = field(default_factory=Clock)
    loads: Counter[str] = field(default_factory=Counter)
    moved: list[tuple[str, str]] = field(default_factory=list)

    rest: Callable[[Part], None] = lambda part: None

    def __post_init__(self) -> None:
        limit = Limit(size_bytes=int(self.layers * SIZE_BYTES), why="the test")
        self.residency = Residency(CPU, limit, self.host, self.clock)

    def part(
        self,
        name: str,
        *,
        seconds: float = 1.0,
        load: Callable[[], nn.Module] | None = None,
        expected_bytes: int = SIZE_BYTES,
    ) -> Part:
        """A part that takes so long to load."""

        def counted() -> tuple[nn.Module, float]:
            self.loads[name] += 1
            self.clock.now_s += seconds
            return (load() if load is not None else layer(sum(map(ord, name)))), seconds

        part = Part(
            card="card",
            name=name,
            load=counted,
            expected=lambda: expected_bytes,
            moved=lambda reason: self.moved.append((name, reason)),
            rest=lambda: self.rest(part),
        )
        self.residency.adopt(part)
        return part

    @property
    def names(self) -> set[str]:
        """The components on the device."""
        shown = self.residency.snapshot().residents
        return {each.component for each in shown if each.place == "on the device"}
