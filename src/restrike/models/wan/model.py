"""Wan as a diffusion model that the denoising loop drives: text or image in, latent out, frames out.

All methods are functions of their arguments; what a request needs more than once is in its own context.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from restrike.cards.checkpoint import Checkpoint
from restrike.cards.request import Arguments
from restrike.errors import Refused
from restrike.loops.contract import LoopContext, Tensors
from restrike.loops.denoise import DenoiseLoop
from restrike.loops.schedule import Schedule
from restrike.loops.solvers.base import Solver
from restrike.models.wan import pictures
from restrike.models.wan.denoiser import project_text, rotary_tables, velocity
from restrike.models.wan.layout import WanLayout, layout_of
from restrike.models.wan.prompts import encoded, tokenized
from restrike.models.wan.sampler import SchedulerSettings, plan

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")


def text_to_video(checkpoint: Checkpoint) -> DenoiseLoop:
    """The loop that starts from noise alone."""
    return DenoiseLoop(WanModel(layout=layout_of(checkpoint)))


def image_to_video(checkpoint: Checkpoint) -> DenoiseLoop:
    """The loop whose first frame is given."""
    return DenoiseLoop(WanImageModel(layout=layout_of(checkpoint)))


def once(context: LoopContext, name: str, make: Callable[[], T]) -> T:
    """What `make` gives, made by the first picture of the request and read by the others."""
    if name not in context.shared:
        context.shared[name] = make()
    return context.shared[name]


@dataclass(frozen=True, kw_only=True)
class WanModel:
    """Text to video. The latent is BCTHW float32, one picture a batch."""

    layout: WanLayout

    def sampler(self, context: LoopContext) -> tuple[Schedule, Solver]:
        """The checkpoint's schedule, unless the request says otherwise."""
        settings: SchedulerSettings = context.component("scheduler")
        return plan(settings, context.arguments)

    def expert(self, timestep: float) -> str:
        """The high-noise transformer at and above the boundary, the low-noise one below."""
        boundary = self.layout.boundary
        return "transformer" if boundary is None or timestep >= boundary else "transformer_2"

    def latent_shape(self, context: LoopContext) -> tuple[int, ...]:
        """BCTHW of the request's size."""
        return self._shape(context.arguments)

    def _shape(self, arguments: Arguments) -> tuple[int, int, int, int, int]:
        return self.layout.latent_shape(
            frames=arguments.frames, height_px=arguments.height, width_px=arguments.width
        )

    def conditioning(self, context: LoopContext, expert: str, branch: str) -> dict[str, Tensor]:
        """What is the same at every step: the projected text, the rotary tables, the image's part."""
        # One after the other, so that no two of them need be on the device at once.
        with context.apart():
            text_BLD = once(context, f"text.{branch}", lambda: self._text(context, branch))
        with context.apart():
            image_tokens_BLD = self._image_tokens(context)
        with context.apart():
            common = once(context, "image", lambda: self._image(context))
        transformer = context.component(expert)
        tables = once(
            context,
            f"rotary.{expert}",
            lambda: rotary_tables(transformer, self._shape(context.arguments), context.device),
        )
        projected = project_text(transformer, text_BLD, image_tokens_BLD)
        return {"context": projected, **tables, **common}

    def _text(self, context: LoopContext, branch: str) -> Tensor:
        asked, tokenizer = context.arguments, context.component("tokenizer")
        if branch == "cond":
            tokens = tokenized(asked.prompt, "prompt", tokenizer)
        else:
            tokens = tokenized(asked.negative_prompt, "negative prompt", tokenizer)
        return context.features(
            "text_encoder",
            (tokens.ids_BL, tokens.mask_BL),
            lambda: {"text": encoded(tokens, context.component("text_encoder"))},
        )["text"]

    def _image_tokens(self, context: LoopContext) -> Tensor | None:
        return None

    def _image(self, context: LoopContext) -> dict[str, Tensor]:
        """The share of each token in the step's noise, for a model that is told one timestep a token."""
        if not self.layout.expand_timesteps:
            return {}
        return {"noise_share": self._share(self._unknown(context))}

    def _unknown(self, context: LoopContext) -> Tensor:
        _, _, *sizes = self._shape(context.arguments)
        return torch.ones(1, 1, *sizes, device=context.device)

    def _share(self, unknown_BCTHW: Tensor) -> Tensor:
        _, height, width = self.layout.patch_THW
        return unknown_BCTHW[:, 0, :, ::height, ::width].flatten(1)

    def denoise(self, module: Any, inputs: Tensors) -> Tensor:
        """The velocity, in the latent's shape and the transformer's dtype."""
        latent_BCTHW = self._seen(inputs).to(inputs["context"].dtype)
        timestep = inputs["timestep"]
        if "noise_share" in inputs:
            timestep = inputs["noise_share"] * timestep.unsqueeze(-1)
        return velocity(module, latent_BCTHW, timestep, inputs)

    def _seen(self, inputs: Tensors) -> Tensor:
        return inputs["latent"]

    def decode(self, context: LoopContext, latent: Tensor) -> np.ndarray[Any, Any]:
        """All frames."""
        return pictures.frames_of(context.component("vae"), self._finished(context, latent))

    def _finished(self, context: LoopContext, latent: Tensor) -> Tensor:
        return latent

    def preview(self, context: LoopContext, latent: Tensor) -> np.ndarray[Any, Any]:
        """The first frame alone; the decoder is causal, so one latent frame is enough for it."""
        return pictures.frames_of(context.component("vae"), self._finished(context, latent)[:, :, :1])


@dataclass(frozen=True, kw_only=True)
class WanImageModel(WanModel):
    """Image to video; the first frame lies beside the latent (2.1, 2.2) or inside it (2.2 TI2V)."""

    def _picture(self, context: LoopContext) -> np.ndarray[Any, Any]:
        image_HWC = context.arguments.image
        if image_HWC is None:
            raise Refused("image to video needs a picture; give one")
        return image_HWC

    def _image_tokens(self, context: LoopContext) -> Tensor | None:
        if not self.layout.image_tokens:
            return None
        return once(context, "image_tokens", lambda: self._encoded_picture(context))

    def _encoded_picture(self, context: LoopContext) -> Tensor:
        pixels_BCHW = pictures.clip_pixels(self._picture(context), context.component("image_processor"))
        return context.features(
            "image_encoder",
            (pixels_BCHW,),
            lambda: {"tokens": pictures.image_tokens(pixels_BCHW, context.component("image_encoder"))},
        )["tokens"]

    def _image(self, context: LoopContext) -> dict[str, Tensor]:
        arguments, expanded = context.arguments, self.layout.expand_timesteps
        pixels = pictures.image_pixels(
            self._picture(context), self.layout.spatial_scale, arguments.width, arguments.height
        )
        known_BCTHW = pictures.first_frame_latent(
            context.component("vae"), pixels, 1 if expanded else arguments.frames
        ).to(context.device)
        if expanded:
            unknown_BCTHW = self._unknown(context)
            return {"known": known_BCTHW, "unknown": unknown_BCTHW, "noise_share": self._share(unknown_BCTHW)}
        mask = pictures.known_frame_mask(known_BCTHW, self.layout.temporal_scale)
        return {"known": torch.concat([mask, known_BCTHW], dim=1)}

    def _unknown(self, context: LoopContext) -> Tensor:
        unknown_BCTHW = super()._unknown(context)
        unknown_BCTHW[:, :, 0] = 0
        return unknown_BCTHW

    def _seen(self, inputs: Tensors) -> Tensor:
        if "unknown" in inputs:
            return _filled(inputs["latent"], inputs)
        return torch.cat([inputs["latent"], inputs["known"]], dim=1)

    def _finished(self, context: LoopContext, latent: Tensor) -> Tensor:
        image = once(context, "image", lambda: self._image(context))
        return _filled(latent, image) if "unknown" in image else latent


def _filled(latent_BCTHW: Tensor, image: Tensors) -> Tensor:
    """The latent with its first frame replaced by the given one."""
    return (1 - image["unknown"]) * image["known"] + image["unknown"] * latent_BCTHW
