"""A key: a domain, an epoch and named parts, held as the one encoding that decides equality.

Nothing here stores keys or things; whoever does keeps `encoding` beside the thing and compares it on a hit.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from restrike.errors import Refused
from restrike.keys.diff import Difference, differences
from restrike.keys.encoding import decode, encode
from restrike.keys.unkeyable import Unkeyable
from restrike.keys.values import Digest

_LABEL = re.compile(r"[!-~]{1,200}")
_RESERVED = ("domain", "epoch")


def digest(domain: str, epoch: str, value: object) -> Digest:
    """The SHA-256 of domain || 0x00 || epoch || 0x00 || encoding of the value.

    Args:
        domain: what kind of thing is keyed; equal values in two domains have two digests.
        epoch: what the operation's output means; bumped by hand when that changes.

    Raises:
        Unkeyable: naming the place of what cannot be encoded.
    """
    try:
        encoded = encode(value)
    except Unkeyable as error:
        raise error.inside("value") from None
    return encoded_digest(domain, epoch, encoded)


def encoded_digest(domain: str, epoch: str, encoded: bytes) -> Digest:
    """What `digest` says of the value with this encoding."""
    return Digest(hashlib.sha256(_prefix(domain, epoch) + encoded).hexdigest())


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Key:
    """What decides a thing, in full. Two keys are equal when their encodings are, whatever their digests.

    The parts are read once, here: a list or array that is changed later does not change the key.
    """

    encoding: bytes
    """What `digest` is the SHA-256 of: domain, NUL, epoch, NUL, the canonical CBOR of the parts."""

    def __init__(self, domain: str, epoch: str, parts: Mapping[str, object]) -> None:
        """Encode the parts; raises Unkeyable with the dotted place of what cannot be, from its part on."""
        for name in _RESERVED:
            if name in parts:
                raise Unkeyable("a part cannot have this name; it is the key's own", (name,))
        object.__setattr__(self, "encoding", _prefix(domain, epoch) + encode(dict(parts)))

    @classmethod
    def decode(cls, encoding: bytes) -> Key:
        """The key of which `encoding` is the encoding; raises Refused if there is none."""
        domain, epoch, encoded = _split(encoding)
        parts = decode(encoded)
        if not isinstance(parts, dict):
            raise Refused("not an encoded key: it has no named parts")
        return cls(domain, epoch, cast(dict[str, object], parts))

    @property
    def domain(self) -> str:
        """What kind of thing is keyed."""
        return _split(self.encoding)[0]

    @property
    def epoch(self) -> str:
        """What the operation's output means."""
        return _split(self.encoding)[1]

    @property
    def parts(self) -> dict[str, object]:
        """The parts as they were encoded: arrays as ArrayContent, dataclasses as Record."""
        return cast(dict[str, object], decode(_split(self.encoding)[2]))

    @property
    def digest(self) -> Digest:
        """The SHA-256 of the encoding: the key's name in indexes and file names."""
        return Digest(hashlib.sha256(self.encoding).hexdigest())

    def diff(self, other: Key) -> tuple[Difference, ...]:
        """What differs, by dotted place, from this key to the other; empty when they are equal."""
        return differences(
            {"domain": self.domain, "epoch": self.epoch, **self.parts},
            {"domain": other.domain, "epoch": other.epoch, **other.parts},
        )

    def __repr__(self) -> str:
        return f"Key({self.domain!r}, {self.epoch!r}, {self.digest.short})"


def _prefix(domain: str, epoch: str) -> bytes:
    return _label("domain", domain) + b"\0" + _label("epoch", epoch) + b"\0"


def _label(name: str, text: object) -> bytes:
    if not isinstance(text, str) or not _LABEL.fullmatch(text):
        raise Unkeyable(f"1 to 200 visible ASCII characters are needed here, not {text!r:.80}", (name,))
    return text.encode()


def _split(encoding: bytes) -> tuple[str, str, bytes]:
    domain, epoch, encoded = (*encoding.split(b"\0", 2), b"", b"")[:3]
    labels = domain.decode("ascii", "replace"), epoch.decode("ascii", "replace")
    if not all(map(_LABEL.fullmatch, labels)):
        raise Refused("not an encoded key: it does not begin with a domain and an epoch")
    return *labels, encoded
