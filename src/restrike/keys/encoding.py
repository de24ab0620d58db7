"""The canonical encoding of values: deterministic CBOR (RFC 8949 section 4.2) with typed tags.

Distinct values have distinct encodings and equal values have one. What cannot be encoded in full is refused
with its place; nothing is coerced, normalised or left out, and no location ever enters.

cbor2 writes the bytes, but it never sees the user's value: it takes a tuple for a list, a subclass for its
base, NaN for a number and dates for tags. A value is first lowered to the few types whose encoding is unique.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NoReturn, cast, get_args

import cbor2

from restrike.errors import Refused
from restrike.keys.arrays import content_of
from restrike.keys.unkeyable import Unkeyable
from restrike.keys.values import ArrayContent, Digest, Record, Ref, RefKind

MAX_DEPTH = 64
"""Containers inside each other, at most."""

MAX_SIZE_BYTES = 4 * 2**20
"""Text and bytes of a value plus nine for each item, at most: a key is stored whole and compared on a hit."""

# Four tags of the first-come range that nobody registered ("RST" and a number).
_TUPLE, _REF, _ARRAY, _RECORD = range(0x52535401, 0x52535405)

# The longest head that CBOR puts before an item, so that the count is never under the real size.
_HEAD_BYTES = 9


def encode(value: object) -> bytes:
    """The one encoding of a value.

    Raises:
        Unkeyable: naming the place of what cannot be encoded.
    """
    return cbor2.dumps(_Lowering().lower(value), canonical=True)


def decode(data: bytes) -> object:
    """The value that was encoded: arrays come back as ArrayContent, dataclasses as Record.

    Raises:
        Refused: the bytes are not the canonical encoding of any value.
    """
    if len(data) > MAX_SIZE_BYTES:
        raise Refused(f"an encoded key has at most {MAX_SIZE_BYTES} bytes, not {len(data)}")
    try:
        value = _raised(cbor2.loads(data))
        canonical = encode(value)
    # cbor2 runs its own decoders for dates, patterns and the like, and each fails in its own way.
    except Exception as error:
        raise Refused(f"not an encoded key: {' '.join(str(error).split())}") from error
    if canonical != data:
        raise Refused("not an encoded key: the bytes are not in canonical form")
    return value


class _Lowering:
    """One walk through one value; holds what may still be spent and which containers are open."""

    def __init__(self) -> None:
        self._room_bytes = MAX_SIZE_BYTES
        self._open: set[int] = set()

    def lower(self, value: Any) -> Any:
        """The value in terms of what cbor2 encodes in exactly one way."""
        self._spend(_HEAD_BYTES)
        kind = type(value)
        if kind is str:
            self._spend(_utf8_length(value))
        elif kind is int:
            self._spend(value.bit_length() >> 3)
        elif kind is bytes:
            self._spend(len(value))
        elif kind is float:
            if value != value:
                raise Unkeyable("NaN cannot be keyed: it is not equal to itself")
        elif kind is list or kind is tuple or kind is dict:
            return self._container(value, kind)
        elif kind is not bool and value is not None:
            return self._typed(value)
        return value

    def _spend(self, size_bytes: int) -> None:
        self._room_bytes -= size_bytes
        if self._room_bytes < 0:
            raise Unkeyable(f"the value is over {MAX_SIZE_BYTES} bytes here; key a reference to its digest")

    def _container(self, value: Any, kind: type) -> Any:
        if id(value) in self._open:
            raise Unkeyable("the value contains itself")
        if len(self._open) == MAX_DEPTH:
            raise Unkeyable(f"nested more than {MAX_DEPTH} deep")
        self._open.add(id(value))
        if kind is dict:
            lowered: Any = self._entries(value)
        else:
            items = self._items(value)
            lowered = items if kind is list else cbor2.CBORTag(_TUPLE, items)
        self._open.remove(id(value))
        return lowered

    def _items(self, items: Iterable[Any]) -> list[Any]:
        lowered: list[Any] = []
        try:
            for item in items:
                lowered.append(self.lower(item))
        except Unkeyable as error:
            raise error.inside(len(lowered)) from None
        return lowered

    def _entries(self, entries: Mapping[Any, Any]) -> dict[str, Any]:
        lowered: dict[str, Any] = {}
        for name, value in entries.items():
            if type(name) is not str:
                raise Unkeyable(
                    f"a mapping is keyed by plain strings, not by {_shown_type(name)} {name!r:.40}"
                )
            try:
                self._spend(_HEAD_BYTES + _utf8_length(name))
                lowered[name] = self.lower(value)
            except Unkeyable as error:
                raise error.inside(name) from None
        return lowered

    def _typed(self, value: Any) -> Any:
        kind = type(value)
        if kind is Ref:
            if value.of not in get_args(RefKind):
                raise Unkeyable(
                    f"a reference is of a {' or '.join(get_args(RefKind))}, not of {value.of!r:.40}"
                )
            return cbor2.CBORTag(_REF, [value.of, bytes.fromhex(value.digest.hex)])
        if kind is Digest:
            raise Unkeyable("a bare digest cannot be keyed; say what it is of: Ref(digest, of=...)")
        content = value if kind is ArrayContent else content_of(value)
        if content is not None:
            sha256 = bytes.fromhex(content.sha256.hex)
            return cbor2.CBORTag(_ARRAY, [content.library, content.dtype, list(content.shape), sha256])
        record = value if kind is Record else _record_of(value)
        if record is None:
            _refuse(value)
        return cbor2.CBORTag(_RECORD, [self.lower(record.name), self._container(record.fields, dict)])


def _utf8_length(text: str) -> int:
    if text.isascii():
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise Unkeyable("the text holds a lone surrogate, which is no character") from None


def _record_of(value: object) -> Record | None:
    """A frozen dataclass with its own `key_name`; an inherited one would give two classes one key."""
    kind = type(value)
    if not dataclasses.is_dataclass(kind):
        return None
    if "key_name" not in vars(kind) or not cast(Any, kind).__dataclass_params__.frozen:
        raise Unkeyable(f"{_shown_type(value)} is keyed only if it is frozen and declares its own key_name")
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(kind)}
    return Record(vars(kind)["key_name"], fields)


_PLAIN = (bool, int, float, str, bytes, list, tuple, dict)


def _refuse(value: object) -> NoReturn:
    shown = _shown_type(value)
    if isinstance(value, os.PathLike):
        raise Unkeyable(f"{shown} is a location, which never enters a key; key its content by file_digest")
    if isinstance(value, Enum):
        raise Unkeyable(f"{shown} is an enumeration; key its .value")
    if isinstance(value, (set, frozenset)):
        raise Unkeyable("a set has no order; sort it into a list")
    base = next((base for base in _PLAIN if isinstance(value, base)), None)
    if base is not None:
        raise Unkeyable(f"{shown} is not plain {base.__name__}; convert it with {base.__name__}(...)")
    raise Unkeyable(f"{shown} cannot be keyed; use plain values, arrays, tensors or references")


def _shown_type(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _raised(value: Any) -> object:
    """The inverse of lowering; what does not fit raises, or encodes to other bytes and is refused by that."""
    if isinstance(value, Mapping):
        return {name: _raised(entry) for name, entry in value.items()}
    if isinstance(value, cbor2.CBORTag):
        return _raised_tag(value.tag, value.value)
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [_raised(item) for item in value]
    return value


def _raised_tag(tag: int, content: Any) -> object:
    if tag == _TUPLE:
        return tuple(_raised(item) for item in content)
    if tag == _REF:
        of, digest = content
        return Ref(Digest(digest.hex()), of)
    if tag == _ARRAY:
        library, dtype, shape, digest = content
        return ArrayContent(library, dtype, tuple(shape), Digest(digest.hex()))
    if tag == _RECORD:
        name, fields = content
        return Record(name, cast(dict[str, object], _raised(fields)))
    raise ValueError(f"unknown tag {tag}")
