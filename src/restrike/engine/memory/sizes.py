"""How many bytes a component holds, measured on its real tensors; each storage counts once.

It reads tensors and moves none. What a component keeps outside tensors (a vocabulary, say) is not counted.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, UntypedStorage, nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

_UNITS = ("bytes", "kB", "MB", "GB")


def shown(size_bytes: float) -> str:
    """Bytes for a message: `1.2 GB`; decimal units."""
    for unit in _UNITS:
        if abs(size_bytes) < 1000:
            return f"{size_bytes:.0f} {unit}" if unit == "bytes" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.1f} TB"


def modules_of(component: Any) -> tuple[nn.Module, ...]:
    """The component itself if it is a module; of a pipeline, and of pipelines inside it, all modules."""
    return tuple(dict.fromkeys(_modules(component)))


def _modules(component: Any) -> Iterator[nn.Module]:
    if isinstance(component, nn.Module):
        yield component
    elif _holds_modules(component):
        for value in list(vars(component).values()):
            yield from _modules(value)


def _holds_modules(value: Any) -> bool:
    """Whether it is a pipeline, by what every pipeline class has: the engine imports no library of models."""
    return hasattr(type(value), "components") and hasattr(type(value), "to") and hasattr(value, "__dict__")


def tensors_of(component: Any) -> Iterator[Tensor]:
    """The parameters and buffers; those that wrap others (quantized weights) as the tensors inside."""
    for module in modules_of(component):
        for tensor in (*module.parameters(), *module.buffers()):
            yield from _plain(tensor)


def _plain(tensor: Tensor) -> Iterator[Tensor]:
    if not is_traceable_wrapper_subclass(tensor):
        yield tensor
        return
    names, _ = tensor.__tensor_flatten__()
    for name in names:
        yield from _plain(getattr(tensor, name))


def storages_of(component: Any, device: torch.device) -> tuple[UntypedStorage, ...]:
    """The storages of its tensors on a device, each once."""
    found = (tensor.untyped_storage() for tensor in tensors_of(component) if is_on(tensor, device))
    return tuple({storage.data_ptr(): storage for storage in found if storage.nbytes()}.values())


def is_on(tensor: Tensor, device: torch.device) -> bool:
    """Whether a tensor lies on a device; a device without an index means each of its kind."""
    found = tensor.device
    return found.type == device.type and (device.index is None or found.index == device.index)


def resident_bytes(component: Any, device: torch.device) -> int:
    """The bytes that a component holds on a device."""
    return sum(storage.nbytes() for storage in storages_of(component, device))


class Ledger:
    """The storages of all components on one device: each counts once, for as long as anything holds it.

    So a component that was given up and that a graph or a failure still holds is not taken for free memory.
    """

    def __init__(self) -> None:
        self._sizes: dict[int, tuple[weakref.ref[UntypedStorage], int]] = {}
        self.n_bytes = 0
        """What they hold together."""
        # Re-entrant: a storage can die, and be struck off, in the middle of noting others.
        self._lock = threading.RLock()

    def note(self, storages: Iterable[UntypedStorage]) -> None:
        """Count them from now on; those that are counted already stay counted once."""
        with self._lock:
            for storage in storages:
                place = storage.data_ptr()
                gone = lambda ref, place=place: self._gone(place, ref)  # noqa: E731
                if self._alive(place) is not storage:
                    self._strike(place)
                    self._sizes[place] = (weakref.ref(storage, gone), storage.nbytes())
                    self.n_bytes += storage.nbytes()

    def _alive(self, place: int) -> UntypedStorage | None:
        found = self._sizes.get(place)
        return None if found is None else found[0]()

    def _gone(self, place: int, ref: weakref.ref[UntypedStorage]) -> None:
        with self._lock:
            found = self._sizes.get(place)
            if found is not None and found[0] is ref:
                self._strike(place)

    def _strike(self, place: int) -> None:
        if place in self._sizes:
            self.n_bytes -= self._sizes.pop(place)[1]
