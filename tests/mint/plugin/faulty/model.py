"""A denoiser of a few dozen parameters, and the ways in which it can go wrong.

Axes: B batch, H height, W width, L tokens, D width of a token.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from restrike.loops.contract import LoopContext, Tensors
from restrike.loops.denoise import DenoiseLoop
from restrike.loops.schedule import Schedule, flow_schedule
from restrike.loops.solvers.base import Solver
from restrike.loops.solvers.registry import solver
from restrike.mint.events import EventLog, MintEvent, PhaseBegan


def _pause_in(asked: str) -> None:
    """Let a mint that loads this module stay in one of its phases until it is ended."""
    if asked == "load":
        time.sleep(600)

    def add(log: EventLog, event: MintEvent) -> None:
        added(log, event)
        if isinstance(event, PhaseBegan) and event.phase == asked:
            time.sleep(600)

    added, EventLog.add = EventLog.add, add


if asked := os.environ.get("MINT_TEST_PAUSE"):
    _pause_in(asked)


class Denoiser(nn.Module):
    """Two layers and a bias of one element. `weights` names the checkpoint: its seed."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.enter = nn.Linear(4, 8)
        self.leave = nn.Linear(8, 4)
        self.bias = nn.Parameter(torch.zeros(1))
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))

    def forward(self, latent_BHW: Tensor, timestep_B: Tensor, text_BLD: Tensor) -> Tensor:
        told_BD = text_BLD.mean(dim=1) + timestep_B[:, None] / 1000
        hidden = torch.tanh(self.enter(latent_BHW.flatten(1) + told_BD))
        return (self.leave(hidden) * self.bias).unflatten(1, latent_BHW.shape[1:])


class Raises(Denoiser):
    def forward(self, *tensors: Tensor) -> Tensor:
        raise ValueError("it raises on its first line")


class Exhausts(Denoiser):
    def forward(self, *tensors: Tensor) -> Tensor:
        raise MemoryError("it wants more than there is")


class Hoards(Denoiser):
    """Holds half a gigabyte, really."""

    def forward(self, *tensors: Tensor) -> Tensor:
        self_made = torch.ones(128 << 20)
        return super().forward(*tensors) + self_made[0] * 0


class KilledWarm(Denoiser):
    def forward(self, *tensors: Tensor) -> Tensor:
        os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(*tensors)


class KilledTracing(Denoiser):
    def forward(self, *tensors: Tensor) -> Tensor:
        if torch.compiler.is_exporting():
            os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(*tensors)


class Draws(Denoiser):
    """Draws on the host, so what it answers is not a function of its tensors."""

    def forward(self, *tensors: Tensor) -> Tensor:
        return super().forward(*tensors) * random.random()


class DrawsTensors(Denoiser):
    """Draws by torch from a generator that it sets back, so eager is steady and the graph still draws."""

    def forward(self, *tensors: Tensor) -> Tensor:
        torch.manual_seed(0)
        return super().forward(*tensors) + torch.rand(())


class Branches(Denoiser):
    def forward(self, *tensors: Tensor) -> Tensor:
        answer = super().forward(*tensors)
        return answer if float(tensors[0].sum()) > 0 else -answer


class BranchesOnOneShape(Denoiser):
    """Cannot be written down for stills of 4 pixels in width, and can for others."""

    def forward(self, *tensors: Tensor) -> Tensor:
        if tensors[0].shape[0] == 2:
            return super().forward(*tensors) * float(tensors[0].sum() > 0)
        return super().forward(*tensors)


class MakesConstants(Denoiser):
    def forward(self, *tensors: Tensor) -> Tensor:
        return super().forward(*tensors) + torch.tensor([1.0, 2.0])


class Narrows(Denoiser):
    """Holds for a batch of up to four, whatever was declared."""

    def forward(self, *tensors: Tensor) -> Tensor:
        answer = super().forward(*tensors)
        return answer if tensors[0].shape[0] <= 4 else -answer


class Sleeps(Denoiser):
    def forward(self, *tensors: Tensor) -> Tensor:
        time.sleep(600)
        return super().forward(*tensors)


class Works(Denoiser):
    """Computes for five seconds, which is no sleep."""

    def forward(self, *tensors: Tensor) -> Tensor:
        end = time.monotonic() + 5
        while time.monotonic() < end:
            torch.ones(1000).sum()
        return super().forward(*tensors)


class KilledProving(Denoiser):
    """Dies at its first forward in inference mode, which is the proof's."""

    def forward(self, *tensors: Tensor) -> Tensor:
        if torch.is_inference_mode_enabled():
            os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(*tensors)


class Deviates(Denoiser):
    """Answers otherwise in inference mode than where it was traced, so the proof has to fail."""

    def forward(self, *tensors: Tensor) -> Tensor:
        answer = super().forward(*tensors)
        return answer + 1 if torch.is_inference_mode_enabled() else answer


class LeavesEarly(Denoiser):
    """Ends the process as if all were well."""

    def forward(self, *tensors: Tensor) -> Tensor:
        os._exit(0)


class Siblings(nn.Module):
    """The text encoder and decoder in one."""


@dataclass(frozen=True)
class FaultyModel:
    """A `DiffusionModel` of stills of 2x2 pixels."""

    def sampler(self, context: LoopContext) -> tuple[Schedule, Solver]:
        asked = context.arguments
        return flow_schedule(asked.steps, shift=asked.shift, sigmas=asked.sigmas), solver(asked.solver)

    def expert(self, timestep: float) -> str:
        return "denoiser"

    def latent_shape(self, context: LoopContext) -> tuple[int, ...]:
        return (1, 2, 2)

    def conditioning(self, context: LoopContext, expert: str, branch: str) -> Mapping[str, Tensor]:
        asked = context.arguments
        length = len(asked.prompt if branch == "cond" else asked.negative_prompt)
        return {"text": torch.full((1, 3, 4), length / 10)}

    def denoise(self, module: Any, inputs: Tensors) -> Tensor:
        return module(inputs["latent"], inputs["timestep"], inputs["text"])

    def decode(self, context: LoopContext, latent: Tensor) -> np.ndarray[Any, Any]:
        return np.zeros((1, 2, 2, 3), np.uint8)

    def preview(self, context: LoopContext, latent: Tensor) -> np.ndarray[Any, Any]:
        return self.decode(context, latent)


def build_loop(checkpoint: Any) -> DenoiseLoop:
    return DenoiseLoop(FaultyModel())


def load_denoiser(checkpoint: Any, placement: Any, kind: str, seed: int) -> nn.Module:
    return globals()[kind](seed).eval().requires_grad_(False)


def load_sibling(checkpoint: Any, placement: Any) -> nn.Module:
    return Siblings()


def load_badly(checkpoint: Any, placement: Any) -> nn.Module:
    raise RuntimeError("the loader fails")


def load_and_die(checkpoint: Any, placement: Any) -> nn.Module:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError
