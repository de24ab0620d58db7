"""Each kernel that may serve this device against its reference, paired, at the sizes of real models.

The bar: whatever is chosen is no slower than the reference in this run, which is a second measurement. Run it
with --variant fast on a GPU to see the kernels that are near their reference too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from form import Bar, Figure, Report, at_most, finish, options, paired, ratio
from restrike.engine.devices import available
from restrike.engine.kernels.registry import Cell
from restrike.engine.kernels.samples import Sample, samples
from restrike.engine.kernels.selection import Op, target_on
from restrike.engine.kernels.table import REGISTRY
from restrike.engine.kernels.workspace import scratch

SLOWER = 1.05
"""What a chosen kernel may take of the reference's time when both are timed again."""


def bound(cell: Cell, sample: Sample, device: torch.device) -> Callable[[], Any]:
    """One run of a kernel on the sample, waited for."""
    kernel, arguments = cell.load(), sample.arguments
    size_bytes = kernel.workspace_bytes(arguments[0].shape)

    def run() -> None:
        kernel.run(scratch(cell.op, size_bytes, device) if size_bytes else None, *arguments)
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    return run


def measured(op: str, device: torch.device, variant: str, repeats: int) -> tuple[list[Figure], list[Bar]]:
    """The figures of one op at each size, and a bar for what is chosen there."""
    figures, bars = list[Figure](), list[Bar]()
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    *others, reference = REGISTRY.candidates(op, target_on(device), variant)
    for sample in samples(op, device, dtype):
        chooser = Op(op, REGISTRY, variant)
        chooser.choose(*sample.arguments)
        chosen = [verdict.cell for verdict in chooser.verdicts if verdict.chosen]
        runs = [bound(cell, sample, device) for cell in (reference, *others)]
        base, *times = paired(runs, repeats)
        figures.append(Figure(name=f"{op}, {sample.label}: reference", unit="s", values=base))
        for cell, values in zip(others, times, strict=True):
            name = f"{op}, {sample.label}: {cell.summary} / reference"
            figures.append(ratio(name, values, base))
            if cell in chosen:
                bars.append(at_most(figures[-1], SLOWER))
    return figures, bars


def main() -> int:
    """Measure all ops."""
    parser = options(__doc__ or "", repeats=21)
    parser.add_argument("--device", default=available()[0], help="default: the best one")
    parser.add_argument("--variant", default="exact", help="reference, exact or fast; default exact")
    asked = parser.parse_args()
    device = torch.device(asked.device)
    with torch.inference_mode():
        found = [measured(spec.name, device, asked.variant, asked.repeats) for spec in REGISTRY.ops]
    report = Report(
        title=f"Kernels on {device}",
        figures=tuple(figure for figures, _ in found for figure in figures),
        bars=tuple(bar for _, bars in found for bar in bars),
    )
    return finish(report, as_json=asked.json)


if __name__ == "__main__":
    sys.exit(main())
