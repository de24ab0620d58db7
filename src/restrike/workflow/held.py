"""The values that a run holds in memory for later actions, within a limit.

What the store has can be dropped and read again; what lives in this run alone stays until nothing reads it.
"""

from __future__ import annotations

from typing import Any

LIMIT_BYTES = 1 << 30


class Held:
    """Values by action; those that the store has give way, the longest unused first."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._values: dict[str, Any] = {}
        self._stored_bytes: dict[str, int] = {}
        self._total_bytes = 0

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __getitem__(self, name: str) -> Any:
        if name in self._stored_bytes:
            self._stored_bytes[name] = self._stored_bytes.pop(name)  # now the one used last
        return self._values[name]

    def hold(self, name: str, value: Any, *, stored_bytes: int | None) -> None:
        """Hold a value; `stored_bytes` is its size if the store has it, None if only this run does."""
        self.drop(name)
        self._values[name] = value
        if stored_bytes is not None:
            self._stored_bytes[name] = stored_bytes
            self._total_bytes += stored_bytes
        while self._total_bytes > self._limit_bytes and len(self._stored_bytes) > 1:
            self.drop(next(iter(self._stored_bytes)))

    def drop(self, name: str) -> None:
        """Forget a value."""
        self._values.pop(name, None)
        self._total_bytes -= self._stored_bytes.pop(name, 0)
