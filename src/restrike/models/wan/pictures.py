"""Between pictures and Wan's latents: the conditioning image in, the frames out.

Equals what the Wan pipelines of diffusers compute. Nothing here is random or kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    import numpy as np


def _statistics(vae: Any, like: Tensor) -> tuple[Tensor, Tensor]:
    """The latent's mean and reciprocal deviation by channel, (1, C, 1, 1, 1)."""
    shape = (1, vae.config.z_dim, 1, 1, 1)
    mean = torch.tensor(vae.config.latents_mean).view(shape).to(like)
    inverse_deviation = 1.0 / torch.tensor(vae.config.latents_std).view(shape).to(like)
    return mean, inverse_deviation


def frames_of(vae: Any, latent_BCTHW: Tensor) -> np.ndarray[Any, Any]:
    """The frames (THWC, uint8) of a clean latent of batch 1."""
    latent_BCTHW = latent_BCTHW.to(device=vae.device, dtype=vae.dtype)
    mean, inverse_deviation = _statistics(vae, latent_BCTHW)
    video_BCTHW = vae.decode(latent_BCTHW / inverse_deviation + mean, return_dict=False)[0]
    unit_CTHW = (video_BCTHW[0] * 0.5 + 0.5).clamp(0, 1)
    return (unit_CTHW.permute(1, 2, 3, 0).float() * 255).round().to(torch.uint8).cpu().numpy()


def image_pixels(
    image_HWC: np.ndarray[Any, Any], spatial_scale: int, width_px: int, height_px: int
) -> Tensor:
    """The picture at the clip's size, (1, 3, H, W) float32 in -1 to 1; resized as Pillow's Lanczos does."""
    from diffusers.video_processor import VideoProcessor
    from PIL import Image

    processor = VideoProcessor(vae_scale_factor=spatial_scale)
    return processor.preprocess(Image.fromarray(image_HWC), height=height_px, width=width_px)


def first_frame_latent(vae: Any, pixels_BCHW: Tensor, frames: int) -> Tensor:
    """The normalised latent (BCTHW, float32) of a clip whose first frame is the picture, the others grey."""
    pixels_BCTHW = pixels_BCHW.unsqueeze(2).to(device=vae.device, dtype=torch.float32)
    grey_BCTHW = pixels_BCTHW.new_zeros(*pixels_BCTHW.shape[:2], frames - 1, *pixels_BCTHW.shape[3:])
    clip_BCTHW = torch.cat([pixels_BCTHW, grey_BCTHW], dim=2).to(vae.dtype)
    latent_BCTHW = vae.encode(clip_BCTHW).latent_dist.mode().to(torch.float32)
    mean, inverse_deviation = _statistics(vae, latent_BCTHW)
    return (latent_BCTHW - mean) * inverse_deviation


def known_frame_mask(latent_BCTHW: Tensor, temporal_scale: int) -> Tensor:
    """1 in the first latent frame, which is given, 0 where it is to be made: (1, temporal_scale, T, H, W)."""
    _, _, frames, height, width = latent_BCTHW.shape
    mask = latent_BCTHW.new_zeros(1, temporal_scale, frames, height, width)
    mask[:, :, 0] = 1
    return mask


def clip_pixels(image_HWC: np.ndarray[Any, Any], processor: Any) -> Tensor:
    """The picture as CLIP reads it, BCHW."""
    from PIL import Image

    return processor(images=Image.fromarray(image_HWC), return_tensors="pt")["pixel_values"]


def image_tokens(pixels_BCHW: Tensor, encoder: Any) -> Tensor:
    """CLIP's tokens of the picture, (1, 257, D) at the usual size, from its last layer but one."""
    pixels_BCHW = pixels_BCHW.to(encoder.device)
    return encoder(pixel_values=pixels_BCHW, output_hidden_states=True).hidden_states[-2]
