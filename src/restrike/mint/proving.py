"""Proves a compiled call against eager on probes of its shape class, and times both. Keeps no result."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor, nn

from restrike.loops.contract import Tensors
from restrike.mint.cell.manifest import Proof
from restrike.mint.refusals import NotExportable, OutOfTolerance, Subject
from restrike.mint.warm import Observed

_REPEATS = 5
# A forward of minutes is not run five times; its first time says enough.
_LONG_S = 5.0

Run = Callable[[Tensors], Tensor]


@dataclass(frozen=True, kw_only=True)
class Timed:
    """An answer and the median of the seconds that it took."""

    answer: Tensor
    seconds: float


def prove(run: Run, component: nn.Module, seen: Observed, tolerance: float, subject: Subject) -> Proof:
    """Compare `run` with eager at the least and the most of the shape class's batch.

    Raises:
        OutOfTolerance: it differs by more than `tolerance`, relative to the largest value of eager's answer.
    """
    worst, eager_s, cell_s = 0.0, 0.0, 0.0
    for batch in dict.fromkeys(seen.shape.batches):
        with torch.inference_mode():
            probe = seen.probe(batch)
            eager, cell = _timed((lambda inputs: seen.call(component, inputs), run), probe)
        found = difference(eager.answer, cell.answer)
        if not found <= tolerance:
            raise OutOfTolerance(
                subject,
                f"'{seen.name}' differs from eager by {found:.2g} of its largest value, the card allows "
                f"{tolerance:.2g}",
                "it serves eager; lower the precision of the promise only if pictures stay the same",
            )
        worst, eager_s, cell_s = max(worst, found), eager.seconds, cell.seconds
    return Proof(max_difference=worst, tolerance=tolerance, eager_s=eager_s, cell_s=cell_s)


def require_steady(component: nn.Module, seen: Observed, subject: Subject) -> None:
    """Raise NotExportable when the call answers the same tensors differently: it reads or draws elsewhere."""
    with torch.no_grad():
        probe = seen.probe(1)
        first, second = (seen.call(component, dict(probe)) for _ in range(2))
    if not torch.equal(first, second):
        raise NotExportable(
            subject,
            f"'{seen.name}' answers the same tensors differently each time, so it draws on the host or keeps "
            "something between calls",
            "let all that varies come in as a tensor",
        )


def difference(eager: Tensor, cell: Tensor) -> float:
    """The largest difference relative to eager's largest value; infinite where shapes or kinds differ."""
    if eager.shape != cell.shape or eager.dtype != cell.dtype:
        return float("inf")
    scale = float(eager.abs().max())
    found = float((eager.float() - cell.float()).abs().max())
    # A NaN compares as false, so it must not be hidden by a division.
    return found / scale if scale > 0 else (0.0 if found == 0 else float("inf"))


def _timed(runs: tuple[Run, ...], probe: Mapping[str, Tensor]) -> tuple[Timed, ...]:
    """Each run's answer and time; they take turns, so that what else goes on here meets all of them."""
    answers = [run(probe) for run in runs]
    seconds: list[list[float]] = [[] for _ in runs]
    while len(seconds[0]) < _REPEATS and sum(map(sum, seconds)) < _LONG_S:
        for run, taken in zip(runs, seconds, strict=True):
            _settle(answers[0])
            began = time.perf_counter()
            _settle(run(probe))
            taken.append(time.perf_counter() - began)
    return tuple(
        Timed(answer=answer, seconds=median(taken)) for answer, taken in zip(answers, seconds, strict=True)
    )


def _settle(answer: Tensor) -> None:
    if answer.is_cuda:
        torch.cuda.synchronize(answer.device)
