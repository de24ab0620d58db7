"""What diffusers' own Wan pipelines make of the same checkpoint, request and noise, and what they pass by."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from restrike.cards.request import Arguments
from restrike.engine.divergence import Tap, Trace

TAPS = ("input.cond.context", "input.uncond.context", "input.latent", "velocity", "latent", "frames")
"""What diffusers can be asked for as well: the projected texts, and what goes in and out of the scheduler."""


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A result of diffusers: the latent that its scheduler ends with, frames (THWC, uint8), and all taps."""

    latent: torch.Tensor
    frames_THWC: np.ndarray[Any, Any]
    trace: Trace


def pipeline(folder: Path, *, image: bool = False) -> Any:
    """The pipeline as a user of diffusers loads it, which leaves it in eval mode."""
    import diffusers

    kind = diffusers.WanImageToVideoPipeline if image else diffusers.WanPipeline
    pipe = kind.from_pretrained(folder)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def run(pipe: Any, arguments: Arguments) -> Reference:
    """The pipeline's result, from noise drawn by the seed itself as Restrike does for its first picture."""
    seen = _Seen(total=arguments.steps)
    with _watched(pipe, seen):
        frames = _call(pipe, arguments)[0]
    frames_THWC = np.stack([np.asarray(frame) for frame in frames])
    latent = seen.taps[-1].value
    ends = (Tap(name="latent", value=latent), Tap(name="frames", value=torch.from_numpy(frames_THWC)))
    return Reference(latent=latent, frames_THWC=frames_THWC, trace=(*seen.taps, *ends))


@dataclass(kw_only=True)
class _Seen:
    """The taps so far; `step` is the one that runs, from 1."""

    total: int
    step: int = 1
    branch: int = 0
    taps: list[Tap] = field(default_factory=list)
    texts: dict[str, torch.Tensor] = field(default_factory=dict)

    def note(self, name: str, value: torch.Tensor) -> None:
        self.taps.append(Tap(name=name, value=value.clone(), step=self.step, total=self.total))

    def text(self, value: torch.Tensor) -> None:
        """A text as the transformer projects it anew at each step; told once while it stays the same."""
        name = ("input.cond.context", "input.uncond.context")[self.branch]
        self.branch += 1
        if name not in self.texts or not torch.equal(self.texts[name], value):
            self.note(name, value)
        self.texts[name] = value


@contextmanager
def _watched(pipe: Any, seen: _Seen) -> Iterator[None]:
    """The pipeline with ears at its text projections and its scheduler."""
    solve = pipe.scheduler.step

    def step(velocity: torch.Tensor, timestep: Any, latent: torch.Tensor, **more: Any) -> Any:
        seen.note("input.latent", latent)
        seen.note("velocity", velocity)
        result = solve(velocity, timestep, latent, **more)
        seen.note("latent", result[0])
        seen.step, seen.branch = seen.step + 1, 0
        return result

    def projected(module: Any, given: Any, made: tuple[torch.Tensor | None, ...]) -> None:
        text_BLD, image_BLD = made[2:]
        assert text_BLD is not None
        seen.text(text_BLD if image_BLD is None else torch.concat([image_BLD, text_BLD], dim=1))

    experts = [pipe.transformer, getattr(pipe, "transformer_2", None)]
    hooks = [
        expert.condition_embedder.register_forward_hook(projected) for expert in experts if expert is not None
    ]
    pipe.scheduler.step = step
    try:
        yield
    finally:
        del pipe.scheduler.step
        for hook in hooks:
            hook.remove()


def _call(pipe: Any, asked: Arguments) -> Any:
    from PIL import Image

    more: dict[str, Any] = {}
    if asked.image is not None:
        more["image"] = Image.fromarray(asked.image)
    if pipe.config.boundary_ratio is not None:
        more["guidance_scale_2"] = asked.guidance_2
    return pipe(
        prompt=asked.prompt,
        negative_prompt=asked.negative_prompt,
        height=asked.height,
        width=asked.width,
        num_frames=asked.frames,
        num_inference_steps=asked.steps,
        guidance_scale=asked.guidance if asked.guidance_mode != "none" else 1.0,
        generator=torch.Generator().manual_seed(asked.seed),
        output_type="pil",
        **more,
    ).frames
