"""Values as they are stored: a small document, and blobs that hold the elements of arrays.

The document is the value's own canonical encoding, in which an array is named by the digest of its elements;
a blob holds just these elements. So equal values have equal documents and share their blobs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from restrike.keys import ArrayContent, Digest, Record, digest
from restrike.keys.arrays import content_of, elements_of
from restrike.keys.encoding import decode, encode
from restrike.keys.key import encoded_digest

if TYPE_CHECKING:
    import numpy as np
    import torch

DOMAIN, EPOCH = "value", "1"


@dataclass(frozen=True, kw_only=True)
class Packed:
    """A value ready to be stored. `blobs` maps the digest of each array to its elements, in C order."""

    digest: Digest
    document: bytes
    blobs: Mapping[Digest, memoryview]

    @property
    def size_bytes(self) -> int:
        """What storing it takes at most."""
        return len(self.document) + sum(buffer.nbytes for buffer in self.blobs.values())


def pack(value: object) -> Packed:
    """Split a value into its document and blobs.

    Values are None, bool, int, float, str, bytes, lists, tuples, mappings, numpy arrays, torch tensors and
    frozen dataclasses with a `key_name`; raises Unkeyable, naming the place, for anything else.
    """
    lowering = _Lowering()
    lowered = lowering.lower(value)
    return Packed(digest=digest(DOMAIN, EPOCH, lowered), document=encode(lowered), blobs=lowering.blobs)


def unpack(document: bytes, read: Callable[[Digest], bytearray]) -> Any:
    """The value of a document; dataclasses come back as Record. `read` gives the bytes of a blob."""
    return _raised(decode(document), read)


def document_digest(document: bytes) -> Digest:
    """The digest of the value that a document stands for: what `pack` said of it."""
    return encoded_digest(DOMAIN, EPOCH, document)


def blobs_of(document: bytes) -> frozenset[Digest]:
    """The digests of all blobs that a document names."""
    found: set[Digest] = set()
    _collect(decode(document), found)
    return frozenset(found)


def tree_of(document: bytes) -> Any:
    """The value of a document as it is stored: arrays are ArrayContent, dataclasses Record. Reads no blob."""
    return decode(document)


def tree_digest(tree: Any) -> Digest:
    """The digest of a value in its stored form, or of a part of it: what `pack` says of the value itself."""
    return digest(DOMAIN, EPOCH, tree)


@dataclass
class _Lowering:
    blobs: dict[Digest, memoryview] = field(default_factory=dict)

    def lower(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: self.lower(entry) for name, entry in value.items()}
        if type(value) in (list, tuple):  # the encoder refuses what is derived from them
            return type(value)(self.lower(entry) for entry in value)
        if dataclasses.is_dataclass(value) and not isinstance(value, (type, Record, ArrayContent)):
            return self._record(value)
        content = content_of(value)
        if content is None:
            return value
        self.blobs[content.sha256] = elements_of(value)
        return content

    def _record(self, value: Any) -> Any:
        name = vars(type(value)).get("key_name")
        if name is None:
            return value  # the encoder refuses it, naming the place
        return Record(name, {f.name: self.lower(getattr(value, f.name)) for f in dataclasses.fields(value)})


def _raised(value: Any, read: Callable[[Digest], bytearray]) -> Any:
    if isinstance(value, ArrayContent):
        return _torch(value, read) if value.library == "torch" else _numpy(value, read)
    if isinstance(value, Record):
        return Record(value.name, {name: _raised(entry, read) for name, entry in value.fields.items()})
    if isinstance(value, dict):
        return {name: _raised(entry, read) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_raised(entry, read) for entry in value)
    return value


def _numpy(content: ArrayContent, read: Callable[[Digest], bytearray]) -> np.ndarray[Any, Any]:
    import numpy as np

    elements = np.frombuffer(read(content.sha256), dtype=np.dtype(content.dtype)).reshape(content.shape)
    elements.flags.writeable = False
    return elements


def _torch(content: ArrayContent, read: Callable[[Digest], bytearray]) -> torch.Tensor:
    import torch

    dtype = getattr(torch, content.dtype)
    data = read(content.sha256)
    if not data:
        return torch.empty(content.shape, dtype=dtype)
    return torch.frombuffer(data, dtype=dtype).reshape(content.shape)


def _collect(value: Any, found: set[Digest]) -> None:
    if isinstance(value, ArrayContent):
        found.add(value.sha256)
    elif isinstance(value, Record):
        _collect(dict(value.fields), found)
    elif isinstance(value, dict):
        for entry in value.values():
            _collect(entry, found)
    elif isinstance(value, (list, tuple)):
        for entry in value:
            _collect(entry, found)
