"""Lists the names of tensors in a message: a few of them, and how many there are."""

from __future__ import annotations

from collections.abc import Sequence

SHOWN = 6


def listed(names: Sequence[str]) -> str:
    """`'a', 'b'`; of more than six the first ones and the count."""
    shown = ", ".join(f"'{name}'" for name in names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more (of {len(names)})"
