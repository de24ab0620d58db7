"""The weights of loaded pipelines, shared by all that are made of the same ones.

They live as long as a pipeline that uses them; this keeps none alive. Nothing writes to shared tensors.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from restrike.keys import Digest, digest


@dataclass(eq=False)
class SharedWeights:
    """A pipeline as it was loaded, which nobody calls: copies of it are called."""

    pipeline: Any


_loaded: WeakValueDictionary[Digest, SharedWeights] = WeakValueDictionary()
_lock = threading.Lock()


def shared_weights(parts: Mapping[str, object], load: Callable[[], Any]) -> SharedWeights:
    """The weights that are decided by these parts: those in use now, else newly loaded."""
    key = digest("shared-weights", "1", dict(parts))
    with _lock:
        found = _loaded.get(key)
        if found is None:
            found = _loaded[key] = SharedWeights(load())
        return found
