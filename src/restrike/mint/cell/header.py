"""The header of a cell: small, of bounded size, and enough to decide whether the rest is worth fetching."""

from __future__ import annotations

from dataclasses import dataclass

from restrike.keys import Digest
from restrike.mint.cell.facts import Stack, Target

Version = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class HeaderFacts:
    """What of a cell decides, besides its call, whether it can run: what compiled it, and for what."""

    stack: Stack
    target: Target


@dataclass(frozen=True, kw_only=True)
class Floor:
    """The oldest system libraries with which the code can be linked; `()` where it needs none."""

    glibc: Version
    libstdcxx: Version


@dataclass(frozen=True, kw_only=True)
class Header:
    """`key` is a claim that the manifest proves or refutes; `manifest` is the digest of all that follows.

    Sizes in bytes, of the encoded manifest and of the members with their frames.
    """

    key: Digest
    facts: HeaderFacts
    floor: Floor
    manifest: Digest
    manifest_bytes: int
    members_bytes: int

    def __post_init__(self) -> None:
        if self.manifest_bytes < 0 or self.members_bytes < 0:
            raise ValueError("a size is negative")
