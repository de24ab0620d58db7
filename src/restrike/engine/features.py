"""What encoders made of texts and pictures, kept within a budget under all that decides it.

It never hands out what it keeps: values go in and come out as copies. It computes nothing itself.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from restrike.cards.identity import WeightIdentity
from restrike.cards.placement import Placement
from restrike.keys import Key

LIMIT_BYTES = 256 << 20


@dataclass(frozen=True, kw_only=True)
class FeatureCounters:
    """What became of all that was asked for; `bytes` and `entries` are what is kept now."""

    hits: int = 0
    misses: int = 0
    evictions: int = 0
    entries: int = 0
    bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class _Entry:
    weights: WeightIdentity
    value: Any
    bytes: int


class FeatureCache:
    """Tensors, and tuples, lists and mappings of them, on the host; the least recently used leaves first.

    The key is that of the bytes: the identity of the component's weights with version and adapters, precision
    and device, and the parts that the model names. What is larger than the budget is not kept.
    """

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._counters = FeatureCounters()
        self._lock = threading.Lock()

    def get(
        self, weights: WeightIdentity, placement: Placement, parts: tuple[Any, ...], make: Callable[[], Any]
    ) -> Any:
        """What `make` gives, or gave for the same key; the caller may do with it as it likes.

        Raises:
            Unkeyable: the parts hold what cannot be keyed in full.
        """
        key = _key(weights, placement, parts)
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
            self._count(hits=int(entry is not None), misses=int(entry is None))
        value = self._kept(key, weights, make()) if entry is None else entry.value
        # A new one too goes this way: strides decide about kernels, and so about bits.
        return _mapped(value, lambda tensor: tensor.to(placement.device, copy=True))

    def _kept(self, key: bytes, weights: WeightIdentity, made: Any) -> Any:
        """What is kept of it, or would be: it may be larger than all that is kept."""
        size_bytes = _bytes_of(made)
        value = _mapped(made, lambda tensor: tensor.detach().to("cpu", copy=True))
        if size_bytes > self._limit_bytes:
            return value
        with self._lock:
            self._drop(key)
            self._entries[key] = _Entry(weights=weights, value=value, bytes=size_bytes)
            self._count(entries=1, bytes=size_bytes)
            while self._counters.bytes > self._limit_bytes:
                self._drop(next(iter(self._entries)))
                self._count(evictions=1)
        return value

    def invalidate(self, weights: WeightIdentity) -> None:
        """Drop what was made with these weights, under whatever adapters; no later key asks for it."""
        with self._lock:
            for key, entry in list(self._entries.items()):
                if replace(entry.weights, adapters=()) == replace(weights, adapters=()):
                    self._drop(key)

    def clear(self) -> None:
        """Drop all of it."""
        with self._lock:
            for key in list(self._entries):
                self._drop(key)

    @property
    def counters(self) -> FeatureCounters:
        """As they are now."""
        return self._counters

    def _drop(self, key: bytes) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._count(entries=-1, bytes=-entry.bytes)

    def _count(self, **more: int) -> None:
        now = self._counters
        self._counters = replace(now, **{name: getattr(now, name) + count for name, count in more.items()})


def _key(weights: WeightIdentity, placement: Placement, parts: tuple[Any, ...]) -> bytes:
    stack = [[part.digest, part.strength, part.component] for part in weights.adapters]
    return Key(
        "features",
        "1",
        {
            "component": weights.component,
            "base": weights.base,
            "version": weights.version,
            "adapters": stack,
            "device": placement.device,
            "precision": placement.dtype,
            "parts": parts,
        },
    ).encoding


def _mapped(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The same with other tensors in it; what is no tensor or container stays."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, Mapping):
        return {name: _mapped(part, change) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_mapped(part, change) for part in value)
    return value


def _bytes_of(value: Any) -> int:
    if isinstance(value, Tensor):
        return value.nbytes
    if isinstance(value, Mapping):
        return sum(map(_bytes_of, value.values()))
    return sum(map(_bytes_of, value)) if isinstance(value, list | tuple) else 0


@dataclass(frozen=True)
class CardFeatures:
    """The cache as the loops of one card see it: a `Features`."""

    cache: FeatureCache
    placement: Placement
    version_of: Callable[[str], WeightIdentity]

    def __call__(self, component: str, parts: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """What `make` gives, or gave before under the component's weights as they are now."""
        return self.cache.get(self.version_of(component), self.placement, parts, make)
