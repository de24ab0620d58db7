"""What was where in a device's memory at one time, as values. It changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from restrike.engine.memory.limits import Limit
from restrike.engine.memory.parts import Part, Place


@dataclass(frozen=True, kw_only=True)
class Resident:
    """One component in a `Snapshot`: what it holds on the device, or held there when it was last.

    `idle_s` is None for one that was never used; `loads` counts how often it was built from its files.
    """

    card: str
    component: str
    place: Place
    asleep: bool
    size_bytes: int
    idle_s: float | None
    loads: int


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """One device: its components, what is set aside by what for, evictions so far by reason."""

    device: str
    limit: Limit
    resident_bytes: int
    reserved: Mapping[str, int]
    residents: tuple[Resident, ...]
    evictions: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class WarmCard:
    """A card that is loaded: the identity of its weights, and how many graphs and cells are armed for it."""

    card: str
    weights: str
    graphs: int
    cells: int

    @property
    def is_armed(self) -> bool:
        """Whether anything answers its steps but eager."""
        return bool(self.graphs or self.cells)


def resident(part: Part, now_s: float) -> Resident:
    """A component as it is now."""
    return Resident(
        card=part.card,
        component=part.name,
        place=part.place,
        asleep=part.asleep,
        size_bytes=part.measured_bytes or 0,
        idle_s=None if part.used_s is None else now_s - part.used_s,
        loads=part.loads,
    )
