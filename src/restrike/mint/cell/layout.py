"""The bytes of a sealed cell, and where each part of them lies. Every byte has a meaning; there are no gaps.

    RESTRIKE CELL 1\\n | length | header | SHA-256 of it | public key | signature
    manifest | SHA-256 of it | for each member: length, name, length, bytes

The two digests only tell damage from fraud: what is trusted is the signature over the header, the digest of
the manifest in the header, and the digests of the members in the manifest.
"""

from __future__ import annotations

import hashlib
import re
import struct
from dataclasses import dataclass
from typing import BinaryIO

from restrike.mint.cell.refusal import CellRefusal, CellRefused
from restrike.mint.cell.signing import PUBLIC_BYTES, SIGNATURE_BYTES

MAGIC = b"RESTRIKE CELL 1\n"
DIGEST_BYTES = 32
MAX_HEADER_BYTES = 8192
HEAD_BYTES = len(MAGIC) + 4 + MAX_HEADER_BYTES + DIGEST_BYTES + PUBLIC_BYTES + SIGNATURE_BYTES
"""As many bytes from the start of a file hold its header, whatever the cell."""

_NOBODY = bytes(PUBLIC_BYTES + SIGNATURE_BYTES)
_LENGTH = struct.Struct("<I")
_SIZE = struct.Struct("<Q")


@dataclass(frozen=True, kw_only=True)
class Head:
    """The start of a cell, unchecked: its encoded header, and who signed it; empty for nobody."""

    header: bytes
    public: bytes
    signature: bytes

    @property
    def size_bytes(self) -> int:
        """Where the manifest begins."""
        return len(MAGIC) + _LENGTH.size + len(self.header) + DIGEST_BYTES + len(_NOBODY)

    def written(self) -> bytes:
        """The bytes of the head."""
        signed = self.public + self.signature or _NOBODY
        return MAGIC + _LENGTH.pack(len(self.header)) + checked(self.header) + signed


def head_of(data: bytes) -> Head:
    """The head at the start of these bytes, of which `HEAD_BYTES` are enough.

    Raises:
        CellRefused: no header, unknown format, truncated, flipped bytes.
    """
    if not data.startswith(MAGIC):
        if re.match(rb"RESTRIKE CELL \d+\n", data):
            raise CellRefused(CellRefusal.UNKNOWN_FORMAT, "a later Restrike sealed it; upgrade this one")
        raise CellRefused(CellRefusal.NO_HEADER, "the file does not begin as a cell does")
    place = len(MAGIC) + _LENGTH.size
    length = int.from_bytes(data[len(MAGIC) : place], "little")
    if length > MAX_HEADER_BYTES:
        raise CellRefused(CellRefusal.FLIPPED_BYTES, "no header is as long as it says")
    header, place = _checked(data, place, length, "header"), place + length + DIGEST_BYTES
    signed = data[place : place + len(_NOBODY)]
    if len(signed) < len(_NOBODY):
        raise CellRefused(CellRefusal.TRUNCATED, "the file ends within its signature")
    public, signature = signed[:PUBLIC_BYTES], signed[PUBLIC_BYTES:]
    return Head(header=header, public=public.strip(b"\0") and public, signature=signature)


def manifest_in(file: BinaryIO, head: Head, length: int) -> bytes:
    """The encoded manifest; raises CellRefused as `head_of`."""
    file.seek(head.size_bytes)
    return _checked(file.read(length + DIGEST_BYTES), 0, length, "manifest")


def member_frame(name: str, size_bytes: int) -> bytes:
    """What precedes the bytes of a member."""
    encoded = name.encode()
    return _LENGTH.pack(len(encoded)) + encoded + _SIZE.pack(size_bytes)


def first_member(file: BinaryIO, head: Head, manifest_bytes: int) -> None:
    """Move the file to its first member."""
    file.seek(head.size_bytes + manifest_bytes + DIGEST_BYTES)


def next_member(file: BinaryIO, limit_bytes: int) -> tuple[str, bytes]:
    """The name and bytes of the member at which the file is; a length over the limit is a flipped one."""
    name = _read(file, int.from_bytes(_read(file, _LENGTH.size, limit_bytes), "little"), limit_bytes)
    size_bytes = int.from_bytes(_read(file, _SIZE.size, limit_bytes), "little")
    return name.decode("utf-8", "replace"), _read(file, size_bytes, limit_bytes)


def checked(data: bytes) -> bytes:
    """A part of the file with the digest that tells whether it is whole."""
    return data + hashlib.sha256(data).digest()


def _read(file: BinaryIO, size_bytes: int, limit_bytes: int) -> bytes:
    if size_bytes > limit_bytes:
        raise CellRefused(CellRefusal.FLIPPED_BYTES, "a member says that it is longer than all members are")
    data = file.read(size_bytes)
    if len(data) < size_bytes:
        raise CellRefused(CellRefusal.TRUNCATED, "the file ends within a member")
    return data


def _checked(data: bytes, start: int, length: int, part: str) -> bytes:
    content = data[start : start + length]
    digest = data[start + length : start + length + DIGEST_BYTES]
    if len(digest) < DIGEST_BYTES:
        raise CellRefused(CellRefusal.TRUNCATED, f"the file ends within its {part}")
    if hashlib.sha256(content).digest() != digest:
        raise CellRefused(CellRefusal.FLIPPED_BYTES, f"its {part} is not what was sealed")
    return content
