"""Arguments for each op at the sizes of real models, for measuring it where no request gives any.

Drawn from a generator; nothing is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from restrike.engine.kernels.selection import Op, Verdict
from restrike.engine.kernels.table import REGISTRY


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Arguments of one op, and what has that size."""

    op: str
    label: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class _Draw:
    generator: torch.Generator
    device: torch.device
    dtype: torch.dtype = torch.float32

    def __call__(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator).to(self.device, self.dtype)


LATENTS = (
    ("a still of 64 px", (1, 16, 1, 8, 8)),
    ("5 latent frames of 240p", (1, 16, 5, 30, 52)),
    ("21 latent frames of 480p", (1, 16, 21, 60, 104)),
)
TOKENS = (("64 tokens", 64), ("5 latent frames of 240p", 1950))
WIDTH, HEADS = 1536, 12


def samples(op: str, device: torch.device, dtype: torch.dtype = torch.float32, seed: int = 0) -> list[Sample]:
    """The arguments of an op at several sizes; `dtype` is that of hidden states, latents are float32."""
    draw = _Draw(torch.Generator().manual_seed(seed), device)
    hidden = _Draw(draw.generator, device, dtype)
    by_size: list[tuple[str, Callable[[], tuple[Any, ...]]]]
    if op == "modulate":
        by_size = [(label, lambda n=n: _modulate(hidden, n)) for label, n in TOKENS]
    elif op == "rms_rotary":
        by_size = [(label, lambda n=n: _rms_rotary(hidden, draw, n)) for label, n in TOKENS]
    elif op == "guided_euler":
        by_size = [(label, lambda s=shape: _guided_euler(draw, s)) for label, shape in LATENTS]
    else:
        by_size = [(label, lambda s=shape: _sde_step(draw, s)) for label, shape in LATENTS]
    return [Sample(op=op, label=label, arguments=make()) for label, make in by_size]


def _number(draw: _Draw, value: float) -> Tensor:
    return torch.tensor(value, device=draw.device)


def _guided_euler(draw: _Draw, shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    return draw(*shape), draw(*shape), draw(*shape), _number(draw, 5.0), _number(draw, -0.03)


def _sde_step(draw: _Draw, shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    numbers = (_number(draw, value) for value in (0.98, -0.04, 0.12, 1.2))
    return draw(*shape), draw(*shape), draw(*shape), *numbers


def _modulate(draw: _Draw, tokens: int) -> tuple[Tensor, ...]:
    return draw(1, tokens, WIDTH), draw(1, 1, WIDTH), draw(1, 1, WIDTH)


def _rms_rotary(hidden: _Draw, table: _Draw, tokens: int) -> tuple[Any, ...]:
    angle = table(1, tokens, 1, WIDTH // HEADS // 2).repeat_interleave(2, dim=-1)
    return hidden(1, tokens, WIDTH), hidden(WIDTH), angle.cos(), angle.sin(), 1e-6, HEADS


def measured(device: str, variant: str) -> list[tuple[Sample, Verdict]]:
    """What is found of every kernel that may serve a device, each op's first choice first.

    Hidden states are in the dtype that models have there: bfloat16 on a GPU, float32 on a CPU.
    """
    here = torch.device(device)
    dtype = torch.bfloat16 if here.type == "cuda" else torch.float32
    found: list[tuple[Sample, Verdict]] = []
    for spec in REGISTRY.ops:
        for sample in samples(spec.name, here, dtype):
            op = Op(spec.name, REGISTRY, variant)
            op.choose(*sample.arguments)
            found += [(sample, verdict) for verdict in op.verdicts]
    return found
