"""What diffusers' own Wan pipelines make of the same checkpoint, request and noise."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from restrike.cards.request import Arguments


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A result of diffusers: the latent before decoding and the frames (THWC, uint8)."""

    latent: torch.Tensor
    frames_THWC: np.ndarray[Any, Any]


def pipeline(folder: Path, *, image: bool = False) -> Any:
    """The pipeline as a user of diffusers loads it, which leaves it in eval mode."""
    import diffusers

    kind = diffusers.WanImageToVideoPipeline if image else diffusers.WanPipeline
    pipe = kind.from_pretrained(folder)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def run(pipe: Any, arguments: Arguments) -> Reference:
    """The pipeline's result, from noise drawn by the seed itself as Restrike does for its first picture."""
    latent = _call(pipe, arguments, "latent")
    frames = _call(pipe, arguments, "pil")[0]
    return Reference(latent=latent, frames_THWC=np.stack([np.asarray(frame) for frame in frames]))


def _call(pipe: Any, asked: Arguments, output_type: str) -> Any:
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
        output_type=output_type,
        **more,
    ).frames
