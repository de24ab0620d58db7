"""What the store says of its cells, and of what it did with them. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from restrike.keys import Digest
from restrike.mint.cell.header import Header
from restrike.mint.cell.refusal import CellRefusal


@dataclass(frozen=True, kw_only=True)
class StoredCell:
    """A file of the store: `header` is None if it is refused, and `refusal` says why.

    `used_s` is the time at which it was opened or published last, in seconds since 1970.
    """

    key: Digest
    size_bytes: int
    used_s: float
    header: Header | None
    refusal: CellRefusal | None


@dataclass(frozen=True, kw_only=True)
class SetAside:
    """A cell that was refused: where it lies now, and why."""

    key: str
    reason: str
    detail: str
    path: Path


@dataclass(frozen=True, kw_only=True)
class Checked:
    """The outcome of checking every cell; what was refused was set aside."""

    cells: int
    refused: tuple[SetAside, ...]


@dataclass(frozen=True, kw_only=True)
class Collected:
    """What a collection removed: cells over the limit, leftovers, old quarantined files, dead leases."""

    evicted: int
    partial: int
    quarantined: int
    dead_leases: int
    freed_bytes: int


@dataclass(frozen=True, kw_only=True)
class Moved:
    """What a push or pull did: the cells that went, those that were there, and the refused by reason."""

    moved: tuple[Digest, ...]
    already: int
    refused: Mapping[str, int]
