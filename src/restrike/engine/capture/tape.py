"""The tape: the operations of one step, recorded on fixed addresses and replayed without the step's Python.

It runs on any device and is exact: what it replays is the very calls that were recorded. It claims no speed.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from restrike.engine.capture.backend import Step
from restrike.engine.capture.proof import same_bits
from restrike.engine.capture.trace import Trace
from restrike.loops.contract import Tensors

# Their results hold nothing yet; the address is all that a replay needs of them.
_ALLOCATIONS = ("aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty")
Call = Callable[[], object]


@dataclass(frozen=True)
class TapeBackend:
    """Captures by recording; `device` is where the steps run."""

    device: torch.device
    name: str = field(default="tape", init=False)
    folds_values: bool = field(default=False, init=False)

    @property
    def identity(self) -> tuple[str, int, str]:
        """Device kind and index, and the machine."""
        return self.device.type, self.device.index or 0, platform.machine()

    def forecast_bytes(self, trace: Trace) -> int:
        """A tape keeps all that the step makes."""
        return trace.produced_bytes

    def capture(self, step: Step, inputs: Tensors) -> Tape:
        """Run the step once, recording."""
        recorder = _Recorder(inputs)
        with recorder:
            outputs = step(inputs)
        return Tape(outputs=dict(outputs), calls=tuple(recorder.calls), bytes=recorder.made_bytes)

    def synchronize(self) -> None:
        """Wait for the device; a CPU has nothing outstanding."""
        if self.device.type != "cpu":
            torch.accelerator.synchronize(self.device)


@dataclass
class Tape:
    """Recorded calls; each writes where it wrote when it was recorded."""

    outputs: Tensors
    calls: tuple[Call, ...]
    bytes: int

    def replay(self) -> None:
        """Make the calls again, in order."""
        for call in self.calls:
            call()

    def free(self) -> None:
        """Let go of every address."""
        self.outputs, self.calls, self.bytes = {}, (), 0


class _Recorder(TorchDispatchMode):
    """Runs each operation and keeps the call that has the same effect at the same addresses."""

    def __init__(self, inputs: Tensors) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self.made_bytes = 0
        # Held while recording, so that no identity of a storage is given away twice.
        self._storages = {id(each.untyped_storage()): each.untyped_storage() for each in inputs.values()}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        given = {id(each.untyped_storage()) for each in _tensors((args, tuple(kwargs.values())))}
        result = func(*args, **kwargs)
        made = [each for each in _tensors(result) if id(each.untyped_storage()) not in given]
        if func._schema.is_mutable:
            self.calls.append(partial(func, *args, **kwargs))
        elif made and func._schema.name not in _ALLOCATIONS:
            self.calls.append(_again(func, args, kwargs, result, made))
        # What only shows its arguments in another way was resolved by this one call.
        self._keep(made)
        return result

    def _keep(self, made: list[Tensor]) -> None:
        for storage in (each.untyped_storage() for each in made):
            if id(storage) not in self._storages:
                self._storages[id(storage)] = storage
                self.made_bytes += storage.nbytes()


def _again(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, made: list[Tensor]) -> Call:
    """The call that writes its results where they are now."""
    if isinstance(result, Tensor):
        into = _writing_overload(func)
        if into is not None and _gives_the_same(into, args, kwargs, result):
            return partial(into, *args, **kwargs, out=result)
    kept = {id(each) for each in made}
    targets = [each if id(each) in kept else None for each in _tensors(result)]
    return partial(_copied, func, args, kwargs, targets)


def _copied(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], targets: list[Tensor | None]) -> None:
    for target, value in zip(targets, _tensors(func(*args, **kwargs)), strict=True):
        if target is not None:
            target.copy_(value)


def _gives_the_same(into: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Tensor) -> bool:
    """Whether the overload that writes into `out` gives the same bits; for a few operations it does not.

    A linear layer adds its bias in a second rounding there.
    """
    try:
        written = torch.empty_strided(result.shape, result.stride(), dtype=result.dtype, device=result.device)
        into(*args, **kwargs, out=written)
    except RuntimeError:
        return False
    return written.stride() == result.stride() and same_bits(written, result)


@cache
def _writing_overload(func: Any) -> Any:
    """The overload of the same operation with one `out` and otherwise the same arguments, or None."""
    wanted = [(each.name, str(each.type)) for each in func._schema.arguments]
    packet = func._overloadpacket
    for overload in (getattr(packet, name) for name in packet.overloads()):
        arguments = overload._schema.arguments
        if [each.name for each in arguments if each.is_out] != ["out"]:
            continue
        if [(each.name, str(each.type)) for each in arguments if not each.is_out] == wanted:
            return overload
    return None


def _tensors(value: Any) -> list[Tensor]:
    """The tensors of an argument or a result, however they are packed."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, tuple | list):
        return [tensor for each in value for tensor in _tensors(each)]
    return []
