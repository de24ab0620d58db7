"""Run by test_triton.py in a process where Triton interprets; prints each case's fault, if any, as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from restrike.engine.kernels.measuring import difference
from restrike.engine.kernels.registry import Cell
from restrike.engine.kernels.table import REGISTRY
from restrike.engine.kernels.workspace import BoundWorkspace, WorkspaceOverrun, scratch

SHAPES = [(2, 3, 1, 5, 7), (2, 2, 30, 20), (1, 1, 1)]


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=_generator).to(dtype)


_generator = torch.Generator().manual_seed(5)


def numbers(shape: tuple[int, ...], *values: float) -> Iterator[tuple[Tensor, ...]]:
    """The numbers of one request, and columns for a batch."""
    column = (shape[0], *(1,) * (len(shape) - 1))
    yield tuple(torch.tensor(value) for value in values)
    yield tuple(value + normal(*column).abs() for value in values)


def step_arguments(op: str) -> Iterator[tuple[Any, ...]]:
    values = (5.0, -0.1) if op == "guided_euler" else (0.9, -0.1, 0.2, 1.1)
    for shape in SHAPES:
        for each in numbers(shape, *values):
            yield normal(*shape), normal(*shape), normal(*shape), *each
    if op == "guided_euler":  # branches in half precision, and some that lie otherwise in memory
        half = [normal(2, 4, 6, dtype=torch.bfloat16) for _ in range(2)]
        yield normal(2, 4, 6), *half, *next(numbers((2, 4, 6), *values))
        lying = [normal(2, 6, 4).transpose(1, 2) for _ in range(2)]
        yield normal(2, 4, 6), *lying, *next(numbers((2, 4, 6), *values))


def row_arguments(op: str) -> Iterator[tuple[Any, ...]]:
    for dtype in (torch.float32, torch.bfloat16):
        for batch, tokens, heads, head_width in ((1, 5, 2, 16), (2, 3, 3, 12), (2, 9, 1, 64)):
            width = heads * head_width
            hidden = normal(batch, tokens, width, dtype=dtype)
            if op == "modulate":
                table = normal(batch, 2, width, dtype=dtype)
                yield hidden, *table.split(1, dim=1)
                yield hidden.view(batch, tokens, 1, width), *(each[:, None] for each in table.split(1, dim=1))
                continue
            for tables in (1, batch):
                angle = normal(tables, tokens, 1, head_width // 2).repeat_interleave(2, dim=-1)
                yield hidden, normal(width, dtype=dtype), angle.cos(), angle.sin(), 1e-6, heads


def arguments_of(op: str) -> Iterator[tuple[Any, ...]]:
    return step_arguments(op) if op in ("guided_euler", "sde_step") else row_arguments(op)


def kernels(op: str) -> list[Cell]:
    return [cell for cell in REGISTRY.cells if cell.op == op and cell.kind == "cuda"]


def run(cell: Cell, arguments: tuple[Any, ...]) -> Any:
    kernel = cell.load()
    size_bytes = kernel.workspace_bytes(arguments[0].shape)
    return kernel.run(scratch(cell.op, size_bytes, torch.device("cpu")), *arguments)


def parity(op: str) -> str:
    reference = REGISTRY.reference(op).load().run
    count = 0
    for cell in kernels(op):
        for arguments in arguments_of(op):
            count += 1
            found = run(cell, arguments)
            if fault := difference(
                REGISTRY.op(op), cell.variant == "exact", reference(None, *arguments), found
            ):
                return f"{cell.source}: {fault}"
    return "" if count > 5 else "nothing was run"


def workspaces() -> str:
    """Every kernel within its own bytes, in a workspace with a canary behind it."""
    for op in REGISTRY.ops:
        for cell in kernels(op.name):
            for arguments in arguments_of(op.name):
                bound = BoundWorkspace()
                with bound.warming():
                    run(cell, arguments)
                bound.check()
    return ""


def off() -> str:
    """A kernel that adds one unit in the last place."""
    import triton
    import triton.language as tl

    @triton.jit
    def nudged(values_ptr, size, block: tl.constexpr):
        within = tl.arange(0, block)
        values = tl.load(values_ptr + within, mask=within < size)
        tl.store(values_ptr + within, values * (1.0 + 1.2e-7), mask=within < size)

    arguments = next(step_arguments("guided_euler"))
    expected = REGISTRY.reference("guided_euler").load().run(None, *arguments)
    found = run(kernels("guided_euler")[0], arguments)
    nudged[(1,)](found[0], 8, 8)
    return difference(REGISTRY.op("guided_euler"), True, expected, found)


def past() -> str:
    """A kernel that stores one float past its workspace."""
    import triton
    import triton.language as tl

    @triton.jit
    def careless(workspace_ptr, block: tl.constexpr):
        within = tl.arange(0, block)
        tl.store(workspace_ptr + within, within.to(tl.float32), mask=within < 5)

    bound = BoundWorkspace()
    with bound.warming():
        careless[(1,)](scratch("careless", 16, torch.device("cpu")).view(torch.float32), 8)
    try:
        bound.check()
    except WorkspaceOverrun as error:
        return str(error)
    return ""


if __name__ == "__main__":
    found = {op.name: parity(op.name) for op in REGISTRY.ops}
    found |= {"workspace": workspaces(), "off": off(), "past": past()}
    sys.stdout.write(json.dumps(found))
