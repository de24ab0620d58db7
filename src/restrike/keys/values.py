"""The values that only keys know: digests, references, and what stands for an array or a dataclass.

Nothing here encodes, reads a file or imports numpy or torch.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from restrike.errors import Refused

_SHA256_HEX = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Digest:
    """A SHA-256 digest as 64 lowercase hexadecimal digits; anything else raises Refused."""

    hex: str

    def __post_init__(self) -> None:
        if not _SHA256_HEX.fullmatch(self.hex):
            raise Refused(f"a digest is 64 lowercase hexadecimal digits, not {self.hex[:80]!r}")

    def __str__(self) -> str:
        return self.hex

    @property
    def short(self) -> str:
        """The first twelve digits, for people; never compare by them."""
        return self.hex[:12]


RefKind = Literal["value", "file", "folder"]


@dataclass(frozen=True, slots=True)
class Ref:
    """A reference to content by its digest.

    `of` says what was digested. The digest of a file is that of its bare bytes, which anyone can write so
    that they spell an encoded value; `of` keeps the two apart.
    """

    digest: Digest
    of: RefKind = "value"


@dataclass(frozen=True, slots=True)
class ArrayContent:
    """What of an array or tensor enters a key: `sha256` is that of its elements in C order."""

    library: Literal["numpy", "torch"]
    dtype: str
    shape: tuple[int, ...]
    sha256: Digest


@dataclass(frozen=True, slots=True)
class Record:
    """What of a dataclass enters a key: its declared `key_name` and all its fields."""

    name: str
    fields: Mapping[str, object]


def bytes_digest(data: bytes | memoryview) -> Digest:
    """The SHA-256 of bare bytes: equal to `file_digest` of a file that holds them."""
    return Digest(hashlib.sha256(data).hexdigest())
