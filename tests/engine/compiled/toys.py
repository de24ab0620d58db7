"""A denoiser of one layer, and calls that stand for its compiled code: they count and tell what they read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from restrike.engine.compiled.call import CompiledCall, Declared, identity_of
from restrike.engine.compiled.table import CompiledCalls
from restrike.loops.contract import StepPlan, Tensors

SIZE = 4


class Toy(nn.Module):
    """latent (B, 4) and timestep (B,) to velocity (B, 4)."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(SIZE, SIZE)

    def forward(self, latent: Tensor, timestep: Tensor) -> Tensor:
        return self.layer(latent) + timestep[:, None]


@dataclass(frozen=True)
class ToyModel:
    """The owner of the call; a value, as models are."""

    side: int = SIZE

    def denoise(self, module: Any, inputs: Tensors) -> Tensor:
        return module(inputs["latent"], inputs["timestep"])


def plan_of(latent: Tensor | None = None, timestep: Tensor | None = None, call: Any = None) -> StepPlan:
    """A step whose one forward reads the latent and the timestep."""
    latent = torch.ones(1, SIZE) if latent is None else latent
    timestep = torch.ones(latent.shape[0]) if timestep is None else timestep
    return StepPlan(
        index=0,
        total=1,
        sigma=1.0,
        component="toy",
        structure=("toy",),
        inputs={"latent": latent, "timestep": timestep},
        call=call or ToyModel().denoise,
        compute=lambda forward, inputs: {"velocity": forward("cond", inputs)},
    )


@dataclass
class Code:
    """Stands for compiled code: what it is bound to, how often it was, and an error to raise instead."""

    bindings: int = 0
    error: Exception | None = None
    given: list[dict[str, torch.dtype]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def bind(self, module: nn.Module) -> Callable[[Tensors], Tensor]:
        self.bindings += 1
        weight, bias = module.layer.weight.detach(), module.layer.bias.detach()

        def run(inputs: Tensors) -> Tensor:
            if self.error is not None:
                raise self.error
            self.given.append({name: value.dtype for name, value in inputs.items()})
            return inputs["latent"] @ weight.T + bias + inputs["timestep"][:, None]

        return run


def call_of(
    code: Code, *, batch: tuple[int, int] = (1, 1), key: str = "k", component: str = "toy"
) -> CompiledCall:
    """A compiled call of the toy for a range of batches."""
    return CompiledCall(
        component=component,
        call=identity_of(ToyModel().denoise),
        inputs=(
            Declared(name="latent", sizes=(batch, (SIZE, SIZE)), dtype=torch.float32),
            Declared(name="timestep", sizes=(batch,), dtype=torch.float32),
        ),
        key=key,
        label=f"toy {key}",
        bind=code.bind,
        failed=code.failures.append,
    )


def table_with(module: nn.Module, *calls: CompiledCall) -> CompiledCalls:
    """A table with these calls armed."""
    table = CompiledCalls(card="toy", mode="auto")
    table.arm([table.bind(call, module) for call in calls])
    return table
