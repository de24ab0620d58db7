"""What the store says of a kept result, and of one that is not there. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from restrike.keys import Digest, Key


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A kept result. `seconds` is what computing it took; `label` and `origin` are for people."""

    key: Key
    value: Digest
    document: bytes
    size_bytes: int
    seconds: float
    label: str
    origin: str
    created: float
    uses: int
    pinned: str | None


@dataclass(frozen=True, kw_only=True)
class Stats:
    """What a store holds; sizes in bytes, `seconds` is what its entries took to compute."""

    entries: int
    blobs: int
    size_bytes: int
    limit_bytes: int
    seconds: float
    pinned: int
    by_label: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Collected:
    """What a collection removed, and why."""

    evicted: int
    orphans: int
    partial: int
    dead_leases: int
    freed_bytes: int


@dataclass(frozen=True, kw_only=True)
class Verified:
    """What a check of everything found; `damaged` names the labels of entries that were removed."""

    entries: int
    blobs: int
    damaged: tuple[str, ...]
