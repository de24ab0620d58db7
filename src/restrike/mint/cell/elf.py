"""What a shared object says of itself: the libraries' versions it needs, and the constants inside it.

Reads 64-bit little-endian ELF as bytes; loads and links nothing. What is cut short is refused, not guessed.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from restrike.mint.cell.header import Floor, Version
from restrike.mint.cell.refusal import CellRefusal, CellRefused

MAGIC = b"\x7fELF"
_SYMBOL_TABLE, _NO_BITS = 2, 8
_START, _END = b"_binary_constants_bin_start", b"_binary_constants_bin_end"


@dataclass(frozen=True, kw_only=True)
class _Section:
    kind: int
    offset: int
    size: int
    link: int


def floor_of(data: bytes) -> Floor:
    """The newest versions of the two libraries that the object's symbols are bound to."""
    return Floor(glibc=_newest(b"GLIBC", data), libstdcxx=_newest(b"GLIBCXX", data))


def constants_bytes(data: bytes) -> int:
    """How many bytes of tensors were linked into the object, or hung on behind it to be mapped."""
    try:
        sections, end = _sections(data)
        symbols = {name: value for each in sections for name, value in _symbols(data, each, sections)}
    except (struct.error, IndexError, ValueError) as error:
        raise CellRefused(CellRefusal.MALFORMED, "a shared object in it is not whole") from error
    linked = symbols.get(_END, 0) - symbols.get(_START, 0)
    return max(0, linked) + max(0, len(data) - end)


def _newest(library: bytes, data: bytes) -> Version:
    found = re.findall(rb"\b" + library + rb"_(\d+(?:\.\d+)+)\0", data)
    return max((tuple(map(int, each.split(b"."))) for each in found), default=())


def _sections(data: bytes) -> tuple[list[_Section], int]:
    """The sections, and where the object ends: after them and the two tables, whichever comes last."""
    programs, offset = struct.unpack_from("<QQ", data, 32)
    program_size, program_count, entry_size, count = struct.unpack_from("<4H", data, 54)
    sections: list[_Section] = []
    for index in range(count):
        place = offset + index * entry_size
        kind = struct.unpack_from("<I", data, place + 4)[0]
        start, size, link = struct.unpack_from("<QQI", data, place + 24)
        sections.append(_Section(kind=kind, offset=start, size=size, link=link))
    tables = (programs + program_size * program_count, offset + entry_size * count)
    end = max(*tables, *(each.offset + each.size for each in sections if each.kind != _NO_BITS))
    if end > len(data):
        raise ValueError("the object is cut short")
    return sections, end


def _symbols(data: bytes, table: _Section, sections: list[_Section]) -> Iterator[tuple[bytes, int]]:
    if table.kind != _SYMBOL_TABLE:
        return
    names = sections[table.link].offset
    for place in range(table.offset, table.offset + table.size, 24):
        name, value = struct.unpack_from("<I4xQ", data, place)
        start = names + name
        if data.startswith((_START, _END), start):
            yield data[start : data.index(b"\0", start)], value
