"""The latent video VAE: 8x in space, 4x in time, causal, so that one frame is a clip of length one.

Axes: B clips, C channels, T frames (1 + 4k outside, 1 + k inside), H, W. Pixels are in [-1, 1].
Latents are normalised by stored statistics, so the transformer sees zero mean and unit variance.
Pure forwards: no state is kept between calls, and nothing here knows prompts or schedules.
Layout after Wan's VAE (https://arxiv.org/abs/2503.20314, section 4.1), much smaller.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SPATIAL_STRIDE = 8
TEMPORAL_STRIDE = 4

_PATCH_PX = 4


@dataclass(frozen=True, kw_only=True)
class VAEConfig:
    """Widths at a 16x16 and an 8x8 grid; ``latent_channels`` is C of the latent."""

    latent_channels: int = 12
    fine_width: int = 64
    coarse_width: int = 96


class ShapesVAE(nn.Module):
    """``encode`` and ``decode`` between clip_BCTHW in [-1, 1] and normalised latent_BCTHW."""

    latent_mean_C: Tensor
    latent_std_C: Tensor

    def __init__(self, config: VAEConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.register_buffer("latent_mean_C", torch.zeros(config.latent_channels))
        self.register_buffer("latent_std_C", torch.ones(config.latent_channels))

    def encode(self, clip_BCTHW: Tensor) -> Tensor:
        """The posterior mean, normalised: latent_BCTHW of 1 + (T - 1) / 4 frames."""
        mean_BCTHW, _ = self.encoder(clip_BCTHW)
        return (mean_BCTHW - _per_channel(self.latent_mean_C)) / _per_channel(self.latent_std_C)

    def decode(self, latent_BCTHW: Tensor) -> Tensor:
        """Pixels of a normalised latent, clip_BCTHW, not clamped."""
        return self.decoder(latent_BCTHW * _per_channel(self.latent_std_C) + _per_channel(self.latent_mean_C))


class Encoder(nn.Module):
    """Pixels to the mean and log-variance of the latent posterior."""

    def __init__(self, config: VAEConfig) -> None:
        super().__init__()
        fine, coarse = config.fine_width, config.coarse_width
        self.stem = FrameConv(3 * _PATCH_PX**2, fine)
        self.halve_rate_16 = HalveRate(fine)
        self.block_16 = ResidualBlock(fine)
        self.down_8 = FrameConv(fine, coarse, stride=2)
        self.halve_rate_8 = HalveRate(coarse)
        self.block_8 = ResidualBlock(coarse)
        self.norm = ChannelNorm(coarse)
        self.out = FrameConv(coarse, 2 * config.latent_channels)

    def forward(self, clip_BCTHW: Tensor) -> tuple[Tensor, Tensor]:
        frames, hidden = _split_frames(clip_BCTHW)
        hidden = self.stem(F.pixel_unshuffle(hidden, _PATCH_PX))
        frames, hidden = self.halve_rate_16(frames, hidden)
        hidden = self.block_16(frames, hidden)
        hidden = self.down_8(hidden)
        frames, hidden = self.halve_rate_8(frames, hidden)
        hidden = self.block_8(frames, hidden)
        hidden = self.out(F.silu(self.norm(hidden)))
        mean_BCTHW, logvar_BCTHW = _join_frames(frames, hidden).chunk(2, dim=1)
        return mean_BCTHW, logvar_BCTHW.clamp(-20.0, 10.0)


class Decoder(nn.Module):
    """Latent to pixels; the first latent frame becomes one frame, each later one becomes four."""

    def __init__(self, config: VAEConfig) -> None:
        super().__init__()
        fine, coarse = config.fine_width, config.coarse_width
        self.stem = FrameConv(config.latent_channels, coarse)
        self.block_8 = ResidualBlock(coarse)
        self.double_rate_8 = DoubleRate(coarse)
        self.up_16 = FrameConv(coarse, 4 * fine)
        self.block_16 = ResidualBlock(fine)
        self.double_rate_16 = DoubleRate(fine)
        self.block_16_late = ResidualBlock(fine)
        self.norm = ChannelNorm(fine)
        self.out = FrameConv(fine, 3 * _PATCH_PX**2)

    def forward(self, latent_BCTHW: Tensor) -> Tensor:
        frames, hidden = _split_frames(latent_BCTHW)
        hidden = self.block_8(frames, self.stem(hidden))
        frames, hidden = self.double_rate_8(frames, hidden)
        hidden = F.pixel_shuffle(self.up_16(hidden), 2)
        hidden = self.block_16(frames, hidden)
        frames, hidden = self.double_rate_16(frames, hidden)
        hidden = self.block_16_late(frames, hidden)
        hidden = self.out(F.silu(self.norm(hidden)))
        return _join_frames(frames, F.pixel_shuffle(hidden, _PATCH_PX))


class FrameConv(nn.Conv2d):
    """A 3x3 convolution within each frame."""

    def __init__(self, inputs: int, outputs: int, *, stride: int = 1) -> None:
        super().__init__(inputs, outputs, 3, stride=stride, padding=1)
        nn.init.normal_(self.weight, std=(9 * inputs) ** -0.5)


class ChannelNorm(nn.Module):
    """RMS over channels at each position, so that neither time nor space leaks through a norm."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gain_C11 = nn.Parameter(torch.ones(channels, 1, 1))

    def forward(self, hidden_NCHW: Tensor) -> Tensor:
        scale_N1HW = hidden_NCHW.square().mean(dim=1, keepdim=True).add(1e-6).rsqrt()
        return hidden_NCHW * scale_N1HW * self.gain_C11


class ResidualBlock(nn.Module):
    """Two convolutions in space with a causal one in time between, on (B*T) frames."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm_in = ChannelNorm(channels)
        self.conv_in = FrameConv(channels, channels)
        self.time = CausalTime(channels, channels)
        self.norm_out = ChannelNorm(channels)
        self.conv_out = FrameConv(channels, channels)

    def forward(self, frames: int, hidden_NCHW: Tensor) -> Tensor:
        branch_NCHW = self.conv_in(F.silu(self.norm_in(hidden_NCHW)))
        branch_NCHW = branch_NCHW + self.time(frames, branch_NCHW)
        return hidden_NCHW + self.conv_out(F.silu(self.norm_out(branch_NCHW)))


class CausalTime(nn.Module):
    """Each frame mixed with the two before it; before the first frame stands the first frame."""

    def __init__(self, inputs: int, outputs: int, *, stride: int = 1) -> None:
        super().__init__()
        self.stride = stride
        self.taps = nn.Conv2d(3 * inputs, outputs, 1)
        nn.init.normal_(self.taps.weight, std=(3 * inputs) ** -0.5)

    def forward(self, frames: int, hidden_NCHW: Tensor) -> Tensor:
        hidden_BTCHW = hidden_NCHW.unflatten(0, (-1, frames))
        first_B1CHW = hidden_BTCHW[:, :1]
        padded_BTCHW = torch.cat([first_B1CHW, first_B1CHW, hidden_BTCHW], dim=1)
        taps = [padded_BTCHW[:, tap : tap + frames : self.stride] for tap in range(3)]
        joined_NCHW = torch.cat(taps, dim=2).flatten(0, 1)
        return self.taps(joined_NCHW.contiguous(memory_format=torch.channels_last))


class HalveRate(nn.Module):
    """1 + 2k frames to 1 + k; frame j sees frames 2j - 2 to 2j."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.time = CausalTime(channels, channels, stride=2)

    def forward(self, frames: int, hidden_NCHW: Tensor) -> tuple[int, Tensor]:
        return (frames + 1) // 2, self.time(frames, hidden_NCHW)


class DoubleRate(nn.Module):
    """1 + k frames to 1 + 2k: frame j gives frames 2j - 1 and 2j, and the one before the first is dropped."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.time = CausalTime(channels, 2 * channels)

    def forward(self, frames: int, hidden_NCHW: Tensor) -> tuple[int, Tensor]:
        pairs_BTCHW = self.time(frames, hidden_NCHW).unflatten(0, (-1, frames))
        doubled_BTCHW = torch.stack(pairs_BTCHW.chunk(2, dim=2), dim=2).flatten(1, 2)[:, 1:]
        doubled_NCHW = doubled_BTCHW.flatten(0, 1).contiguous(memory_format=torch.channels_last)
        return 2 * frames - 1, doubled_NCHW


def _split_frames(video_BCTHW: Tensor) -> tuple[int, Tensor]:
    frames = video_BCTHW.shape[2]
    video_NCHW = video_BCTHW.transpose(1, 2).flatten(0, 1)
    return frames, video_NCHW.contiguous(memory_format=torch.channels_last)


def _join_frames(frames: int, video_NCHW: Tensor) -> Tensor:
    return video_NCHW.unflatten(0, (-1, frames)).transpose(1, 2)


def _per_channel(values_C: Tensor) -> Tensor:
    return values_C[:, None, None, None]
