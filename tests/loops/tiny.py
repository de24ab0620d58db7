"""A real diffusion model of a few hundred parameters, with two experts, for driving loops.

Axes: B batch, C channel, H height, W width, L tokens, D width of a token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from restrike.cards.card import (
    Axis,
    Component,
    Geometry,
    LoopSpec,
    ModelCard,
    Recipe,
    SamplingDefaults,
    Task,
)
from restrike.cards.request import Request, resolve
from restrike.engine.execution import execute
from restrike.engine.extensions import ExtensionMemory
from restrike.engine.pictures import PictureRun
from restrike.loops.contract import Loop, LoopContext, Tensors
from restrike.loops.denoise import DenoiseLoop
from restrike.loops.schedule import Schedule, flow_schedule
from restrike.loops.solvers.base import Solver
from restrike.loops.solvers.registry import solver

WIDTH, TOKENS, CHANNELS, SIDE = 8, 6, 2, 4
EXPERTS = ("noisy", "clean")
BOUNDARY = 500.0


class TextEncoder(nn.Module):
    """Text of each character's byte."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(256, WIDTH)

    def forward(self, prompt: str) -> Tensor:
        """`text_BLD` of a prompt."""
        data = prompt.encode().ljust(TOKENS)[:TOKENS]
        return self.embed(torch.tensor([list(data)]))


class Denoiser(nn.Module):
    """A convolution whose channels are modulated by timestep, text and, where it is told, the guidance."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Conv2d(CHANNELS, WIDTH, 3, padding=1)
        self.modulate = nn.Linear(WIDTH + 2, WIDTH)
        self.after = nn.Conv2d(WIDTH, CHANNELS, 3, padding=1)

    def forward(
        self, latent_BCHW: Tensor, timestep_B: Tensor, text_BLD: Tensor, guidance_B: Tensor
    ) -> Tensor:
        """The velocity, in the module's own dtype."""
        dtype = self.before.weight.dtype
        numbers_BK = torch.stack([timestep_B / 1000, guidance_B / 10], dim=-1)
        told_BD = self.modulate(torch.cat([text_BLD.float().mean(1), numbers_BK], dim=-1).to(dtype))
        hidden_BCHW = self.before(latent_BCHW.to(dtype)) * (1 + told_BD[..., None, None])
        return self.after(torch.tanh(hidden_BCHW))


@dataclass(frozen=True)
class TinyModel:
    """A `DiffusionModel` with one expert above the boundary and one below."""

    def sampler(self, context: LoopContext) -> tuple[Schedule, Solver]:
        asked = context.arguments
        return flow_schedule(asked.steps, shift=asked.shift, sigmas=asked.sigmas), solver(asked.solver)

    def expert(self, timestep: float) -> str:
        return EXPERTS[timestep < BOUNDARY]

    def latent_shape(self, context: LoopContext) -> tuple[int, ...]:
        return (1, CHANNELS, SIDE, SIDE)

    def conditioning(self, context: LoopContext, expert: str, branch: str) -> Mapping[str, Tensor]:
        asked = context.arguments
        prompt = asked.prompt if branch == "cond" else asked.negative_prompt
        return {"text": context.component("text_encoder")(prompt)}

    def denoise(self, module: Any, inputs: Tensors) -> Tensor:
        timestep_B = inputs["timestep"].expand(len(inputs["latent"]))
        told_B = inputs.get("guidance", torch.zeros(1)).expand(len(inputs["latent"]))
        return module(inputs["latent"], timestep_B, inputs["text"], told_B)

    def decode(self, context: LoopContext, latent: Tensor) -> np.ndarray[Any, Any]:
        level_HW = ((latent[0, 0].clamp(-1, 1) + 1) * 127.5).to(torch.uint8)
        return level_HW[None, :, :, None].expand(-1, -1, -1, 3).numpy().copy()

    def preview(self, context: LoopContext, latent: Tensor) -> np.ndarray[Any, Any]:
        return self.decode(context, latent)


def _nothing(*_: Any) -> None:
    raise AssertionError("the tests build their own components")


SIZE = Axis(minimum=SIDE, maximum=SIDE)
CARD = ModelCard(
    name="tiny",
    description="a tiny real model",
    architecture="tiny",
    license="Apache-2.0",
    components=tuple(Component(name=n, load=_nothing, files=("*",)) for n in ("text_encoder", *EXPERTS)),
    loops=(
        LoopSpec(
            name="denoise",
            tasks=(Task.TEXT_TO_IMAGE,),
            components=("text_encoder", *EXPERTS),
            build=_nothing,
            solvers=("euler", "sde", "unipc"),
            guidance=("none", "cfg", "batched", "embedded"),
        ),
    ),
    defaults=SamplingDefaults(width=SIDE, height=SIDE, steps=6, guidance=3.0, guidance_mode="cfg"),
    geometry=Geometry(width=SIZE, height=SIZE),
    recipe=Recipe(method="random weights", loop="denoise"),
).validate()


def components(seed: int = 0, dtype: torch.dtype = torch.float32) -> dict[str, nn.Module]:
    """The same weights for the same seed, whatever ran before."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        built = {"text_encoder": TextEncoder(), **{name: Denoiser() for name in EXPERTS}}
    return {name: module.to(dtype).requires_grad_(False) for name, module in built.items()}


@dataclass
class Driver:
    """Drives one loop over the tiny model, as the engine does, and counts forwards by component."""

    loop: Loop[Any] = field(default_factory=lambda: DenoiseLoop(TinyModel()))
    modules: dict[str, nn.Module] = field(default_factory=components)

    def context(self, item: int = 0, shared: dict[str, Any] | None = None, **asked: Any) -> LoopContext:
        """The context of one picture."""
        arguments = resolve(CARD, Request(**{"prompt": "a red cat", "seed": 7, **asked}))[1]
        return LoopContext(
            arguments=arguments,
            item=item,
            device=torch.device("cpu"),
            component=self.modules.__getitem__,
            shared={} if shared is None else shared,
        )

    def start(self, item: int = 0, shared: dict[str, Any] | None = None, **asked: Any) -> PictureRun:
        """One picture, not yet begun."""
        context = self.context(item, shared, **asked)
        return PictureRun(loop=self.loop, context=context, memory=ExtensionMemory(extensions=()))

    def latent(self, item: int = 0, **asked: Any) -> Tensor:
        """The final latent of one picture."""
        return finished(self.start(item, **asked))


def step(run: PictureRun) -> None:
    """Execute the planned step, as the engine does."""
    plan = run.peek()
    if plan is None:
        raise RuntimeError("the loop has no further step")
    with torch.inference_mode():
        outputs = execute(plan, run.context.component(plan.component), run.memory)
    run.take(outputs, seconds=0.0)


def finished(run: PictureRun, watch: Callable[[Any], None] = lambda plan: None) -> Tensor:
    """Run to the end, showing each plan; the final latent."""
    while (plan := run.peek()) is not None:
        watch(plan)
        step(run)
    latent = run.finalize().latent
    assert latent is not None
    return latent
