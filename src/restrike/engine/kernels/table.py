"""The kernels of this package. A new one is one module and one line here. Imports none of them."""

from __future__ import annotations

from restrike.engine.kernels.registry import Cell, OpSpec, Registry

_HERE = "restrike.engine.kernels"
_AMPERE = 80

OPS = (
    OpSpec(name="guided_euler", summary="combine both branches of guidance, then the Euler step"),
    OpSpec(name="sde_step", summary="the stochastic step and its log-probability", tolerance_eps=32),
    OpSpec(
        name="modulate",
        summary="layer norm, then scale and shift by the condition (adaLN)",
        tolerance_eps=32,
    ),
    OpSpec(
        name="rms_rotary", summary="RMS norm over all heads, then the rotary turn of each", tolerance_eps=32
    ),
)


def _reference(op: str) -> Cell:
    source = f"{_HERE}.reference:{op.upper()}"
    return Cell(op=op, variant="reference", source=source, summary="torch, one operation after another")


def _cpu(op: str, summary: str) -> Cell:
    return Cell(op=op, variant="exact", kind="cpu", source=f"{_HERE}.cpu:{op.upper()}", summary=summary)


def _triton(op: str, variant: str, summary: str) -> Cell:
    return Cell(
        op=op,
        variant=variant,
        kind="cuda",
        arch=_AMPERE,
        needs=("triton",),
        source=f"{_HERE}.gpu.{op}:{variant.upper()}",
        summary=summary,
    )


REGISTRY = Registry(
    ops=OPS,
    cells=(
        *(_reference(op.name) for op in OPS),
        _cpu("guided_euler", "torch, in place"),
        _cpu("sde_step", "torch, in place"),
        _cpu("rms_rotary", "torch, the turn as a product of complex numbers"),
        _triton("guided_euler", "exact", "Triton, one launch"),
        _triton("sde_step", "exact", "Triton, one launch, and torch's own mean"),
        _triton("sde_step", "fast", "Triton, partial sums, two launches"),
        _triton("modulate", "fast", "Triton, one launch, a row a program"),
        _triton("rms_rotary", "fast", "Triton, one launch, a row a program"),
    ),
)
