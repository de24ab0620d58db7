"""One component of one loaded card as residency keeps it: where it is, how big, how dear to bring back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from restrike.engine.memory.host import Parked


class Place(StrEnum):
    """Where a component is."""

    ABSENT = "not loaded"
    DEVICE = "on the device"
    HOST = "in main memory"


@dataclass(kw_only=True, eq=False)
class Part:
    """A component; all below `rest` but `holds` changes under the device's turn alone.

    `load` builds it from its files and tells the seconds of that alone; `expected` guesses its bytes before.
    `moved` is told, with the reason, before its tensors move or go. `altered` says that its weights are not
    those of its files; `rest` makes them so again if nobody needs them otherwise now. `slept_here` says that
    it was on the device when it fell asleep. `holds` counts the requests that need it from their first step
    to their last.
    """

    card: str
    name: str
    load: Callable[[], tuple[Any, float]]
    expected: Callable[[], int]
    moved: Callable[[str], None]
    rest: Callable[[], None]
    component: Any = None
    place: Place = Place.ABSENT
    parked: Parked | None = None
    measured_bytes: int | None = None
    guessed_bytes: int | None = None
    bring_s: float = 0.0
    priority: float = 0.0
    used_s: float | None = None
    first_s: float = 0.0
    asleep: bool = False
    slept_here: bool = False
    altered: bool = False
    holds: int = 0
    loads: int = 0

    def __str__(self) -> str:
        return f"component '{self.name}' of card '{self.card}'"

    def drop(self) -> None:
        """Forget the component, wherever it is: its files bring it back."""
        self.component, self.parked, self.place = None, None, Place.ABSENT

    @property
    def size_bytes(self) -> int:
        """What it holds, or will hold, on the device: measured when it was there last, else guessed."""
        if self.measured_bytes is not None:
            return self.measured_bytes
        if self.guessed_bytes is None:
            self.guessed_bytes = self.expected()
        return self.guessed_bytes
