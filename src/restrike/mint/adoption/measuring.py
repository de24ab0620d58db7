"""Measures whether a cell pays on this machine: it and eager in turn, so that a busy moment hits both."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor, nn

from restrike.engine.compiled.call import Run
from restrike.mint.warm import Observed

_PAIRS = 9
_LONGEST_S = 3.0
_SURE = 3
"""So many pairs are measured however long they take, unless the first says enough."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Medians: seconds of a forward, and how long the cell takes relative to eager beside it."""

    eager_s: float
    cell_s: float
    ratio: float


def measured(run: Run, module: nn.Module, seen: Observed) -> Measured:
    """Time the observed call by the module and by the cell, both warm. In the device's turn."""
    with torch.inference_mode():
        inputs = seen.probe(seen.shape.batches[0])
        pairs: list[tuple[float, float]] = []
        began = time.perf_counter()
        while len(pairs) < _PAIRS and (len(pairs) < _SURE or time.perf_counter() - began < _LONGEST_S):
            pairs.append((_seconds(lambda: seen.call(module, inputs)), _seconds(lambda: run(inputs))))
            if pairs[0][0] > _LONGEST_S:
                break
    return Measured(
        eager_s=median(eager for eager, _ in pairs),
        cell_s=median(cell for _, cell in pairs),
        ratio=median(cell / eager for eager, cell in pairs),
    )


def _seconds(forward: Callable[[], Tensor]) -> float:
    began = time.perf_counter()
    answer = forward()
    if answer.is_cuda:
        torch.cuda.synchronize(answer.device)
    return time.perf_counter() - began
