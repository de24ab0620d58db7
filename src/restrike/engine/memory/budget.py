"""What is taken of one device's memory: resident tensors, which are counted, and reservations.

It adds up and gives back; it moves nothing, and decides nothing about who has to wait.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from types import TracebackType

from restrike.engine.memory.limits import Limit
from restrike.engine.memory.sizes import Ledger


class Reservation:
    """Bytes set aside until they are released; as a context they are released on every way out."""

    def __init__(self, budget: Budget, what: str, size_bytes: int) -> None:
        self._budget = budget
        self.what = what
        self.size_bytes = size_bytes

    def release(self) -> None:
        """Give the bytes back; the second time does nothing."""
        self._budget.give_back(self)

    def __enter__(self) -> Reservation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class Share:
    """What one holder has of a budget, more at one time and less at another; it asks before it takes more."""

    def __init__(self, budget: Budget, what: str) -> None:
        self._budget, self._what = budget, what
        self._taken = budget.claim(what, 0)

    def refusal(self, more_bytes: int) -> str | None:
        """Why so many more bytes may not be taken; None when they may."""
        free_bytes = self._budget.free_bytes
        if more_bytes <= free_bytes:
            return None
        return f"{more_bytes:,} bytes, where {max(free_bytes, 0):,} of {self._budget.limit} are free"

    def take(self, size_bytes: int) -> None:
        """Have so many from now on, in place of what it had."""
        if size_bytes != self._taken.size_bytes:
            before, self._taken = self._taken, self._budget.claim(self._what, size_bytes)
            before.release()


class Budget:
    """The memory of one device."""

    def __init__(self, limit: Limit) -> None:
        self.limit = limit
        self.resident = Ledger()
        self.reserved_bytes = 0
        """What is set aside now."""
        self._reservations: set[Reservation] = set()
        self._lock = threading.Lock()

    @property
    def free_bytes(self) -> int:
        """What is neither resident nor set aside; negative when more is taken than there is."""
        return self.limit.size_bytes - self.resident.n_bytes - self.reserved_bytes

    def reserved(self) -> Mapping[str, int]:
        """The bytes that are set aside, by what for."""
        with self._lock:
            found = list(self._reservations)
        total: Counter[str] = Counter()
        for each in found:
            total[each.what] += each.size_bytes
        return +total

    def claim(self, what: str, size_bytes: int) -> Reservation:
        """Set bytes aside whether they are free or not, by who has made sure that they will be."""
        reservation = Reservation(self, what, size_bytes)
        with self._lock:
            self._reservations.add(reservation)
            self.reserved_bytes += size_bytes
        return reservation

    def give_back(self, reservation: Reservation) -> None:
        """What `Reservation.release` does."""
        with self._lock:
            if reservation in self._reservations:
                self._reservations.remove(reservation)
                self.reserved_bytes -= reservation.size_bytes
