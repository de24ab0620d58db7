"""Main memory as the place for what a device has no room for: components go there and come back bit for bit.

It moves tensors of modules in place; the modules, and all that is not a tensor of theirs, stay as they are.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from restrike.engine.memory.limits import main_memory_free_bytes
from restrike.engine.memory.sizes import is_on, modules_of

_LEFT_FREE = 0.1
"""The share of free main memory that is not filled with components."""


@dataclass(frozen=True)
class Parked:
    """Which tensors of a component lie in main memory, by their addresses there."""

    places: frozenset[int]


@dataclass(frozen=True, kw_only=True)
class Host:
    """Main memory beside a device that has a memory of its own."""

    free_bytes: Callable[[], int | None] = main_memory_free_bytes

    def has_room(self, size_bytes: int) -> bool:
        """Whether so much more fits there now; not where the system does not tell."""
        free_bytes = self.free_bytes()
        return free_bytes is not None and size_bytes <= free_bytes * (1 - _LEFT_FREE)

    def lacks(self, size_bytes: int) -> bool:
        """Whether so much cannot even pass through it now; not where the system does not tell."""
        free_bytes = self.free_bytes()
        return free_bytes is not None and size_bytes > free_bytes

    def let_go(self) -> None:
        """Give the system what page-locked copies that are gone have left behind."""
        gc.collect()
        if torch.accelerator.is_available():
            torch.accelerator.memory.empty_host_cache()

    def take(self, component: Any, device: torch.device) -> Parked:
        """Move the component's tensors from the device to main memory, page-locked for a GPU; all or none."""
        places: set[int] = set()

        def parked(tensor: Tensor) -> Tensor:
            if not is_on(tensor, device) or tensor.data_ptr() in places:
                return tensor
            copy = torch.empty_like(tensor, device="cpu", pin_memory=device.type == "cuda").copy_(tensor)
            places.add(copy.data_ptr())
            return copy

        try:
            _moved(component, parked)
        except BaseException:
            self.give(component, device, Parked(frozenset(places)))
            raise
        return Parked(frozenset(places))

    def give(self, component: Any, device: torch.device, parked: Parked) -> None:
        """Move what was taken back to the device."""

        def back(tensor: Tensor) -> Tensor:
            if tensor.data_ptr() not in parked.places:
                return tensor
            return torch.empty_like(tensor, device=device).copy_(tensor)

        _moved(component, back)


def _moved(component: Any, move: Callable[[Tensor], Tensor]) -> None:
    # Weights that are moved in inference mode could not be written to outside it.
    with torch.inference_mode(False), torch.no_grad():
        for module in modules_of(component):
            module._apply(move)
