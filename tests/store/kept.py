"""Keys, values and families to fill a store with."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from restrike.keys import Digest, Key, digest
from restrike.store.store import Kept

Put = Callable[..., Kept]


def key(number: int, **more: object) -> Key:
    """One of many keys of an operation."""
    return Key("step", "1", {"number": number, **more})


def family(number: int = 0) -> Digest:
    """The family of a key, where a test does not care."""
    return digest("family", "1", number)


def frames(seed: int, size_bytes: int = 4096) -> np.ndarray:
    """Bytes that no other seed gives."""
    return np.random.default_rng(seed).integers(0, 256, size=size_bytes, dtype=np.uint8)
