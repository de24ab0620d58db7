"""A bench for captures: a small real module, and steps planned on it, each compared with eager."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from restrike.engine.capture.backend import Backend
from restrike.engine.capture.capturer import Capturer
from restrike.engine.capture.counters import Break
from restrike.engine.capture.cuda import CudaBackend
from restrike.engine.capture.limits import CaptureLimits
from restrike.engine.capture.proof import difference
from restrike.engine.capture.tape import TapeBackend
from restrike.loops.contract import Forward, StepPlan, Tensors

WIDTH = 8
# Whatever a busy machine measures, the graph is kept; what decides that is tested by itself.
ALWAYS = CaptureLimits(min_speedup=0.0, measure_s=0.0)
BACKENDS = ("tape", "cuda")
SCOPE = ("lab", "denoise")


def backend_named(name: str) -> Backend:
    """The backend, or a skip that says what is missing."""
    if name == "tape":
        return TapeBackend(torch.device("cpu"))
    if not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU here: the cuda backend is not tested")
    return CudaBackend(torch.device("cuda", 0))


class Denoiser(nn.Module):
    """A residual block with all that a graph meets: views, a norm, attention, a buffer, a broadcast."""

    shift: Tensor

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.calls = 0
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("shift", torch.zeros(WIDTH))
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for each in (*self.parameters(), *self.buffers()):
                each.copy_(torch.randn(each.shape, generator=generator) / 3)

    def forward(self, latent_BND: Tensor, timestep_B: Tensor) -> Tensor:
        hidden_BND = F.layer_norm(latent_BND, (WIDTH,)) + timestep_B[:, None, None].cos() + self.shift
        query, key, value = self.qkv(hidden_BND).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
        mixed_BND = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        return latent_BND + self.out(F.gelu(mixed_BND))


def call(module: Any, inputs: Tensors) -> Tensor:
    """How the denoiser is called."""
    return module(inputs["latent"], inputs["timestep"])


def euler(forward: Forward, inputs: Tensors) -> Tensors:
    """One step that reads nothing but its inputs."""
    velocity = forward("cond", inputs)
    return {"latent": inputs["latent"] + inputs["dt"] * velocity, "velocity": velocity}


Compute = Callable[[Forward, Tensors], Tensors]


@dataclass
class Lab:
    """A capturer, a module, and the steps that are run through them."""

    backend: Backend
    limits: CaptureLimits = ALWAYS
    module: nn.Module = field(default_factory=Denoiser)
    capturer: Capturer = field(init=False)
    steps: int = 0

    def __post_init__(self) -> None:
        self.module = self.module.to(self.backend.device).eval().requires_grad_(False)
        self.capturer = Capturer(self.backend, self.limits)

    def plan(self, compute: Compute = euler, *, tokens: int = 4, batch: int = 1, **changes: Any) -> StepPlan:
        """The next step; its tensors differ from those of every other."""
        generator = torch.Generator().manual_seed(self.steps)
        self.steps += 1
        inputs = {
            "latent": torch.randn(batch, tokens, WIDTH, generator=generator),
            "timestep": torch.rand(batch, generator=generator) * 1000,
            "dt": torch.rand((), generator=generator) - 0.5,
        }
        plan = StepPlan(
            index=self.steps,
            total=100,
            sigma=0.5,
            component="denoiser",
            structure=("lab",),
            inputs={name: each.to(self.backend.device) for name, each in inputs.items()},
            call=call,
            compute=compute,
        )
        return replace(plan, **changes)

    def eager(self, plan: StepPlan, module: nn.Module | None = None) -> Callable[[Tensors], Tensors]:
        """The plan as a function of its inputs."""
        used = module or self.module
        return lambda inputs: plan.compute(lambda _, given: plan.call(used, given), inputs)

    def run(self, plan: StepPlan, module: nn.Module | None = None) -> Break | None:
        """Run one step; it must equal eager bit for bit. Returns why it was not a replay."""
        with torch.inference_mode():
            step = self.eager(plan, module)
            given = {name: each.clone() for name, each in plan.inputs.items()}
            stepped = self.capturer.run(SCOPE, plan, module or self.module, step)
            differs = difference(step(given), stepped.outputs)
            assert differs is None, differs
        return stepped.broke

    def unpaired(self, compute: Compute = euler, count: int = 2, **changes: Any) -> str:
        """Run some steps and nothing beside them; tell of the last.

        For steps that are not the same when they are run again.
        """
        broke: Break | None = None
        for _ in range(count):
            plan = self.plan(compute, **changes)
            with torch.inference_mode():
                broke = self.capturer.run(SCOPE, plan, self.module, self.eager(plan)).broke
        return str(broke)

    def told(self, compute: Compute = euler, count: int = 1, **changes: Any) -> list[str]:
        """Run some steps and tell of each: `replay`, or why it was none."""
        reasons = [self.run(self.plan(compute, **changes)) for _ in range(count)]
        return ["replay" if reason is None else str(reason) for reason in reasons]

    def arm(self, compute: Compute = euler, **changes: Any) -> None:
        """Run until a graph answers."""
        assert self.told(compute, 4, **changes)[-1] == "replay"

    @property
    def replays(self) -> int:
        """How many steps were answered by graphs."""
        return self.capturer.counters.replays
