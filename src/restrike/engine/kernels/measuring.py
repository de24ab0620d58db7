"""Whether a kernel equals its reference on given arguments, and what both cost there. Decides nothing.

The arguments are read and never written; the time is bounded.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor

from restrike.engine.kernels.registry import OpSpec

BUDGET_S = 0.02
PAIRS = (3, 15)
"""At least and at most so many pairs of timings; in between, until the budget is spent."""
LAUNCHES = 10
"""Calls in one timing on a device that runs behind the host."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Seconds of one call, medians of paired repeats, and the median of their ratios."""

    reference_s: float
    kernel_s: float
    ratio: float
    pairs: int


def difference(spec: OpSpec, exact: bool, expected: Any, found: Any) -> str:
    """How a kernel's results break its promise; empty when they keep it."""
    for number, (one, other) in enumerate(zip(_tensors(expected), _tensors(found), strict=True)):
        if (one.shape, one.dtype, _strides(one)) != (other.shape, other.dtype, _strides(other)):
            return f"result {number} has another shape, dtype or strides"
        if exact and not torch.equal(_bits(one), _bits(other)):
            return f"result {number} differs from the reference in some bits"
        if not exact:
            tolerance = spec.tolerance_eps * torch.finfo(one.dtype).eps
            if not torch.allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True):
                return f"result {number} is further from the reference than {tolerance:.1e}"
    return ""


def timed(reference: Callable[[], Any], kernel: Callable[[], Any], device: torch.device) -> Timing:
    """Both in turn, until the budget is spent."""
    began, pairs = time.perf_counter(), list[tuple[float, float]]()
    least, most = PAIRS
    while len(pairs) < least or (len(pairs) < most and time.perf_counter() - began < BUDGET_S):
        pairs.append((_seconds(reference, device), _seconds(kernel, device)))
    return Timing(
        reference_s=median(reference_s for reference_s, _ in pairs),
        kernel_s=median(kernel_s for _, kernel_s in pairs),
        ratio=median(kernel_s / reference_s for reference_s, kernel_s in pairs),
        pairs=len(pairs),
    )


def _seconds(run: Callable[[], Any], device: torch.device) -> float:
    if device.type != "cuda":
        began = time.perf_counter()
        run()
        return time.perf_counter() - began
    torch.cuda.synchronize(device)
    began = time.perf_counter()
    for _ in range(LAUNCHES):
        run()
    torch.cuda.synchronize(device)
    return (time.perf_counter() - began) / LAUNCHES


def _tensors(results: Any) -> tuple[Tensor, ...]:
    return results if isinstance(results, tuple) else (results,)


def _strides(values: Tensor) -> tuple[int, ...]:
    """Those that say where elements lie: the stride of an axis of size 1 is anybody's."""
    return tuple(step for step, size in zip(values.stride(), values.shape, strict=True) if size > 1)


def _bits(values: Tensor) -> Tensor:
    return values.contiguous().view(torch.uint8) if values.ndim else values[None].view(torch.uint8)
