"""Which kernel an op runs with on a device, found at its first use there: proved, measured, then chosen.

A choice holds for one process and one class of shapes, and its figures are kept. Nothing of a request is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils import _python_dispatch

from restrike.engine.kernels.contract import Kernel, no_workspace
from restrike.engine.kernels.measuring import Timing, difference, timed
from restrike.engine.kernels.registry import Cell, Registry
from restrike.engine.kernels.target import KINDS, Target
from restrike.engine.kernels.workspace import scratch
from restrike.settings import settings

WIN = 0.98
"""A kernel must take at most this share of the reference's time."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What was found of one kernel for one class of shapes."""

    cell: Cell
    device: str
    dtype: str
    shape: tuple[int, ...]
    timing: Timing | None
    chosen: bool
    why: str


class Op:
    """One op of the registry, called like its reference and as cheaply where that is the choice.

    The reference runs wherever a kernel would be wrong or untried: under autograd, while torch compiles or
    exports, and while a step is recorded that never ran before.
    """

    def __init__(self, name: str, registry: Registry, variant: str | None = None) -> None:
        self.name = name
        self._registry = registry
        self._variant = variant
        self._reference = registry.reference(name).load().run
        self._kinds = {cell.kind for cell in registry.cells if cell.op == name}
        self._chosen: dict[Hashable, Callable[..., Any]] = {}
        self._verdicts: list[Verdict] = []
        self._lock = threading.Lock()

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """All that was found so far, in order."""
        return tuple(self._verdicts)

    def __call__(self, *arguments: Any) -> Any:
        """The op's results, by the kernel that was chosen for these shapes."""
        first: Tensor = arguments[0]
        if first.device.type not in self._kinds:  # no kernel of it runs there: nothing to look up
            return self._reference(None, *arguments)
        if torch.compiler.is_compiling() or (torch.is_grad_enabled() and _differentiates(arguments)):
            return self._reference(None, *arguments)
        chosen = self._chosen.get(_shape_class(first))
        return self._first(*arguments) if chosen is None else chosen(*arguments)

    def _first(self, *arguments: Any) -> Any:
        if _recording(arguments[0].device):
            return self._reference(None, *arguments)
        self.choose(*arguments)
        return self(*arguments)

    def choose(self, *arguments: Any) -> None:
        """Find the best kernel for arguments like these: the first of the candidates that keeps its promise
        and beats the reference, else the reference."""
        first: Tensor = arguments[0]
        shapes = _shape_class(first)
        with self._lock:
            if shapes in self._chosen:
                return
            variant = settings().kernels if self._variant is None else self._variant
            *better, last = self._registry.candidates(self.name, target_on(first.device), variant)
            for cell in better:
                verdict = self._tried(cell, arguments)
                self._verdicts.append(verdict)
                if verdict.chosen:
                    last = cell
                    break
            self._chosen[shapes] = self._bound(last.load())

    def _tried(self, cell: Cell, arguments: tuple[Any, ...]) -> Verdict:
        reference, kernel = self._bound(self._registry.reference(self.name).load()), self._bound(cell.load())
        first: Tensor = arguments[0]
        with torch.inference_mode():
            found = kernel(*arguments)
            spec, exact = self._registry.op(self.name), cell.variant == "exact"
            fault = difference(spec, exact, reference(*arguments), found)
            timing = None
            if not fault:
                timing = timed(lambda: reference(*arguments), lambda: kernel(*arguments), first.device)
        chosen = timing is not None and timing.ratio <= WIN
        return Verdict(
            cell=cell,
            device=str(first.device),
            dtype=str(first.dtype).removeprefix("torch."),
            shape=tuple(first.shape),
            timing=timing,
            chosen=chosen,
            why=fault or ("faster" if chosen else "not faster than the reference"),
        )

    def _bound(self, kernel: Kernel) -> Callable[..., Any]:
        """The kernel as a function of the op's arguments; its scratch is offered at each call."""
        run, declared, op = kernel.run, kernel.workspace_bytes, self.name
        if declared is no_workspace:
            return partial(run, None)

        def call(*arguments: Any) -> Any:
            size_bytes = declared(arguments[0].shape)
            return run(scratch(op, size_bytes, arguments[0].device) if size_bytes else None, *arguments)

        return call


def _shape_class(first: Tensor) -> Hashable:
    """Arguments for which one choice is made: the width decides about vectors, the size about memory."""
    return first.device, first.dtype, first.shape[-1], first.numel().bit_length()


def target_on(device: torch.device) -> Target:
    """The target of a torch device; an AMD GPU, which torch calls cuda, is of a kind without kernels."""
    if device.type == "cuda" and torch.version.cuda is not None:
        major, minor = torch.cuda.get_device_capability(device)
        return Target(kind="cuda", arch=10 * major + minor)
    return Target(kind=device.type if device.type in KINDS and device.type != "cuda" else "other")


def _differentiates(arguments: tuple[Any, ...]) -> bool:
    return any(isinstance(each, Tensor) and each.requires_grad for each in arguments)


def _recording(device: torch.device) -> bool:
    """Whether what runs now is noted down to be run again: then nothing may be tried or timed."""
    if _python_dispatch._get_current_dispatch_mode() is not None:
        return True
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()
