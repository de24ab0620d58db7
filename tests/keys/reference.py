"""Deterministic CBOR written from RFC 8949 sections 3 and 4.2 alone, to hold cbor2 to it."""

from __future__ import annotations

import struct
from typing import Any

from cbor2 import CBORTag


def write(value: Any) -> bytes:
    """The encoding of a plain value or a tag."""
    match value:
        case None | bool():
            return {None: b"\xf6", False: b"\xf4", True: b"\xf5"}[value]
        case int():
            return _integer(value)
        case float():
            return _float(value)
        case str():
            return _head(3, len(value.encode())) + value.encode()
        case bytes():
            return _head(2, len(value)) + value
        case list():
            return _head(4, len(value)) + b"".join(map(write, value))
        case dict():
            entries = sorted((write(name), write(entry)) for name, entry in value.items())
            return _head(5, len(value)) + b"".join(name + entry for name, entry in entries)
        case CBORTag():
            return _head(6, value.tag) + write(value.value)
        case _:
            raise TypeError(type(value))


def _head(major: int, number: int) -> bytes:
    if number < 24:
        return bytes([major << 5 | number])
    width = next(width for width in range(4) if number < 1 << (8 << width))
    return bytes([major << 5 | 24 + width]) + number.to_bytes(1 << width, "big")


def _integer(value: int) -> bytes:
    major, number = (0, value) if value >= 0 else (1, -1 - value)
    if number < 1 << 64:
        return _head(major, number)
    return _head(6, 2 + major) + write(number.to_bytes((number.bit_length() + 7) // 8, "big"))


def _float(value: float) -> bytes:
    for head, form in ((0xF9, ">e"), (0xFA, ">f"), (0xFB, ">d")):
        try:
            packed = struct.pack(form, value)
        except OverflowError:
            continue
        if struct.unpack(form, packed)[0] == value:
            return bytes([head]) + packed
    raise ValueError("NaN")
