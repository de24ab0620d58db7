"""A bank of encoded clips that is renewed as training goes on: item n is always the same clip.

At a given step the bank holds items [step * renewed, step * renewed + size), so a resumed run
rebuilds exactly what it had. Lives in memory only.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from restrike.models.shapes.captions import training_caption
from restrike.models.shapes.data import draw_clips
from restrike.models.shapes.scene import CLIP_FRAMES, SHAPES, SIDE_PX, TRAINED, Scene, draw_scenes
from restrike.models.shapes.vae import SPATIAL_STRIDE, TEMPORAL_STRIDE, ShapesVAE

_CHUNK = 8
# Shapes with the finest detail are learned last, so they are drawn more often than the others.
_OFTEN = {"star": 4, "cross": 2}
_DRAWN = tuple(
    combination for combination in TRAINED for _ in range(_OFTEN.get(SHAPES[combination.shape], 1))
)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Normalised latents, each with its caption."""

    latent_BCTHW: Tensor
    captions: list[str]


class LatentBank:
    """``size`` latents of training clips with their scenes; both counts are multiples of eight."""

    def __init__(self, vae: ShapesVAE, *, seed: int, size: int, first: int) -> None:
        self._vae, self._seed, self._size = vae, seed, size
        self.frames = 1 + (CLIP_FRAMES - 1) // TEMPORAL_STRIDE
        cells = SIDE_PX // SPATIAL_STRIDE
        self._latent_NCTHW = torch.empty(size, vae.config.latent_channels, self.frames, cells, cells)
        self._scenes: list[Scene | None] = [None] * size
        self._next = first // _CHUNK
        for _ in range(size // _CHUNK):
            self.renew()

    @torch.no_grad()
    def renew(self) -> None:
        """Replaces the eight oldest items by the next eight."""
        generator = torch.Generator().manual_seed(self._seed * 7_000_003 + self._next)
        scenes = draw_scenes(_DRAWN, _CHUNK, generator)
        latent_BCTHW = self._vae.encode(draw_clips(scenes, torch.arange(CLIP_FRAMES)))
        slot = self._next * _CHUNK % self._size
        self._latent_NCTHW[slot : slot + _CHUNK] = latent_BCTHW
        self._scenes[slot : slot + _CHUNK] = [scenes.scene(index) for index in range(_CHUNK)]
        self._next += 1

    def draw(self, count: int, *, frames: int, generator: torch.Generator) -> Batch:
        """Latents at random with fresh captions, cut to the first ``frames`` latent frames.

        The VAE is causal, so the cut latent is that of the cut clip; one frame is a still.
        """
        index_B = torch.randint(self._size, (count,), generator=generator)
        chosen = [self._scenes[index] for index in index_B.tolist()]
        still = frames == 1
        captions = [training_caption(scene, still=still, generator=generator) for scene in chosen if scene]
        return Batch(latent_BCTHW=self._latent_NCTHW[index_B, :, :frames], captions=captions)
