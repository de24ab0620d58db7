"""Frozen values as bytes and back: each has one encoding, and bytes that nobody would write are not read.

Knows no field of a header or manifest; what is wrong with the bytes is a refusal, whatever they hold.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from restrike.errors import Refused
from restrike.keys.encoding import decode, encode
from restrike.mint.cell.refusal import CellRefusal, CellRefused

T = TypeVar("T")


def written(value: Any) -> bytes:
    """The bytes of a dataclass; raises Unkeyable, naming the place of what cannot be written."""
    return encode(dataclasses.asdict(value))


def read(kind: type[T], data: bytes) -> T:
    """The value of that kind whose bytes these are; raises CellRefused (malformed)."""
    try:
        value = _adapter(kind).validate_python(decode(data))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise CellRefused(
            CellRefusal.MALFORMED, f"the {kind.__name__.lower()}'s {place}: {first['msg']}"
        ) from error
    except Refused as error:
        raise CellRefused(CellRefusal.MALFORMED, f"the {kind.__name__.lower()}: {error}") from error
    # What was coerced or left out while reading shows here.
    if written(value) != data:
        raise CellRefused(CellRefusal.MALFORMED, f"the {kind.__name__.lower()} holds what it should not")
    return value


@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
