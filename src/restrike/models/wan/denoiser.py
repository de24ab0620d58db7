"""One forward of the Wan transformer with all that repeats between steps taken out of it.

Equals `WanTransformer3DModel.forward` bit for bit. It calls the transformer's own submodules, so attention
processors, LoRA layers and quantised layers act as they always do, and it keeps nothing.

Axes: B batch, C channels, T H W latent frames, height and width, L text tokens, S video tokens, D width.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

Tensors = Mapping[str, Tensor]


def project_text(transformer: Any, text_BLD: Tensor, image_BLD: Tensor | None) -> Tensor:
    """The context that cross-attention reads, at the transformer's width: image tokens first, then text."""
    embedder = transformer.condition_embedder
    context_BLD = embedder.text_embedder(text_BLD.to(transformer.dtype))
    if image_BLD is None:
        return context_BLD
    return torch.concat([embedder.image_embedder(image_BLD.to(transformer.dtype)), context_BLD], dim=1)


def rotary_tables(transformer: Any, shape_BCTHW: tuple[int, ...], device: torch.device) -> dict[str, Tensor]:
    """Cosines and sines of all token positions, each (1, S, 1, head width); they depend on the size alone."""
    cosines, sines = transformer.rope(torch.empty(0, device=device).new_empty(1).expand(shape_BCTHW))
    return {"rotary_cos": cosines, "rotary_sin": sines}


def time_embedding(transformer: Any, timestep: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The timestep's embedding (B, [S,] D) and its six modulations (B, [S,] 6, D)."""
    embedder = transformer.condition_embedder
    waves = embedder.timesteps_proj(timestep.flatten())
    if timestep.ndim == 2:
        waves = waves.unflatten(0, tuple(timestep.shape))
    own_dtype = next(iter(embedder.time_embedder.parameters())).dtype
    if waves.dtype != own_dtype and own_dtype != torch.int8:
        waves = waves.to(own_dtype)
    embedding = embedder.time_embedder(waves).to(dtype)
    modulation = embedder.time_proj(embedder.act_fn(embedding))
    return embedding, modulation.unflatten(-1, (6, -1))


def velocity(transformer: Any, latent_BCTHW: Tensor, timestep: Tensor, inputs: Tensors) -> Tensor:
    """The predicted velocity (BCTHW, the latent's dtype).

    `timestep` is (B,), or (B, S) for a model that is told one for each token. `inputs` hold `context`,
    `rotary_cos` and `rotary_sin`.
    """
    rotary = (inputs["rotary_cos"], inputs["rotary_sin"])
    hidden_BSD = transformer.patch_embedding(latent_BCTHW).flatten(2).transpose(1, 2).contiguous()
    embedding, modulation = time_embedding(transformer, timestep, latent_BCTHW.dtype)
    for block in transformer.blocks:
        hidden_BSD = block(hidden_BSD, inputs["context"], modulation, rotary)
    shift, scale = (transformer.scale_shift_table + embedding.unsqueeze(-2)).chunk(2, dim=-2)
    shift, scale = (shift, scale) if timestep.ndim == 1 else (shift.squeeze(2), scale.squeeze(2))
    hidden_BSD = (transformer.norm_out(hidden_BSD.float()) * (1 + scale) + shift).type_as(hidden_BSD)
    return _unpatched(transformer.proj_out(hidden_BSD), latent_BCTHW.shape, transformer.config.patch_size)


def _unpatched(tokens_BSD: Tensor, shape_BCTHW: torch.Size, patch_THW: tuple[int, int, int]) -> Tensor:
    batch, _, *sizes = shape_BCTHW
    counts = [size // patch for size, patch in zip(sizes, patch_THW, strict=True)]
    split = tokens_BSD.reshape(batch, *counts, *patch_THW, -1)
    return split.permute(0, 7, 1, 4, 2, 5, 3, 6).flatten(6, 7).flatten(4, 5).flatten(2, 3)
