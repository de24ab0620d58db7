"""Ed25519 signatures of headers, and the text by which a public key is passed on.

Decides nothing about trust, and holds no key longer than its caller does.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from restrike.errors import Refused

SIGNATURE_BYTES = 64
PUBLIC_BYTES = 32
# What else the same key may sign one day must not be taken for a header.
_DOMAIN = b"restrike cell header\0"
_SCHEME = "ed25519"


@dataclass(frozen=True)
class PublicKey:
    """A key that may be trusted; `raw` are its 32 bytes."""

    raw: bytes

    @classmethod
    def parse(cls, text: str) -> PublicKey:
        """The inverse of `str`; raises Refused."""
        scheme, _, encoded = text.strip().partition(":")
        try:
            raw = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            raw = b""
        if scheme != _SCHEME or len(raw) != PUBLIC_BYTES:
            raise Refused(f"'{text.strip():.80}' is no public key: it reads {_SCHEME}: and 44 characters")
        return cls(raw)

    def __str__(self) -> str:
        return f"{_SCHEME}:{base64.b64encode(self.raw).decode()}"

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of its bytes, 64 hexadecimal digits."""
        return hashlib.sha256(self.raw).hexdigest()

    def verifies(self, signature: bytes, header: bytes) -> bool:
        """Whether the private half of this key signed the header."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, _DOMAIN + header)
        except (InvalidSignature, ValueError):
            return False
        return True


@dataclass(frozen=True)
class Signer:
    """A private key, for as long as something is signed."""

    private: Ed25519PrivateKey

    @property
    def public(self) -> PublicKey:
        """The half that others trust."""
        return PublicKey(self.private.public_key().public_bytes_raw())

    def sign(self, header: bytes) -> bytes:
        """The 64 bytes that prove who sealed the header."""
        return self.private.sign(_DOMAIN + header)
