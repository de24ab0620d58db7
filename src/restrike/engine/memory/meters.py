"""What memory a piece of work takes while it runs: by the allocator on a GPU, by storages elsewhere.

A meter sees what is allocated between its start and its end, and changes nothing that is computed.
"""

from __future__ import annotations

import weakref
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, UntypedStorage
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves


class Meter(Protocol):
    """Measures one piece of work."""

    @property
    def peak_bytes(self) -> int:
        """The most that the work had allocated at one time."""
        ...

    @property
    def kept_bytes(self) -> int:
        """What of it was still allocated at the end."""
        ...

    def aside(self) -> Any:
        """A context whose allocations are not the work's own: a component that is loaded meanwhile."""
        ...


@contextmanager
def metered(device: torch.device) -> Generator[Meter, None, None]:
    """Measure what is done on a device inside."""
    if device.type == "cuda":
        meter = AllocatorMeter(device)
        yield meter
        meter.end()
    else:
        with StorageMeter(device) as meter:
            yield meter


class AllocatorMeter:
    """Asks the CUDA allocator, whose own peak it resets; it also sees what kernels allocate inside."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._base_bytes = torch.cuda.memory_allocated(device)
        self.peak_bytes = self.kept_bytes = 0
        torch.cuda.reset_peak_memory_stats(device)

    def _note(self) -> None:
        highest_bytes = torch.cuda.max_memory_allocated(self._device) - self._base_bytes
        self.peak_bytes = max(self.peak_bytes, highest_bytes)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """See `Meter`."""
        self._note()
        before_bytes = torch.cuda.memory_allocated(self._device)
        try:
            yield
        finally:
            self._base_bytes += torch.cuda.memory_allocated(self._device) - before_bytes
            torch.cuda.reset_peak_memory_stats(self._device)

    def end(self) -> None:
        """Take the last reading."""
        self._note()
        self.kept_bytes = torch.cuda.memory_allocated(self._device) - self._base_bytes


class StorageMeter(TorchDispatchMode):
    """Adds up the storages that operations make, and takes each off when it dies.

    What a kernel allocates inside and frees before it returns is not seen: half a percent of the peak in the
    convolutions of `shapes`, 0.4 MB in its attention at any size. Sees the operations of its own thread.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device
        self._paused = False
        self._alive: dict[int, weakref.ref[UntypedStorage]] = {}
        self.peak_bytes = self.kept_bytes = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # To be skipped by torch's compiler would import it, which takes longer than a picture.
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """A compiled graph runs as it does without a meter, which then sees its results alone."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        made = func(*args, **named)
        if not self._paused:
            given = self._places((args, named))
            for place, storage in self._places(made).items():
                if place not in given and place not in self._alive:
                    self._add(place, storage)
        return made

    def _places(self, tree: Any) -> dict[int, UntypedStorage]:
        """The storages on the device in arguments or results, by their addresses."""
        leaves = (leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor))
        plain = (leaf for leaf in leaves if not is_traceable_wrapper_subclass(leaf))
        found = (leaf.untyped_storage() for leaf in plain if leaf.device.type == self._device.type)
        return {storage.data_ptr(): storage for storage in found if storage.nbytes()}

    def _add(self, place: int, storage: UntypedStorage) -> None:
        size_bytes = storage.nbytes()

        def gone(_: Any) -> None:
            del self._alive[place]
            self.kept_bytes -= size_bytes

        self._alive[place] = weakref.ref(storage, gone)
        self.kept_bytes += size_bytes
        self.peak_bytes = max(self.peak_bytes, self.kept_bytes)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """See `Meter`."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False
