"""The denoiser: a flow-matching diffusion transformer over a few dozen latent patches.

Axes: B items, C latent channels, T latent frames, H, W latent rows and columns, N tokens, L text
tokens, D channels, E channels of a head. Predicts velocity = noise - clean at sigma = timestep / 1000.
Blocks follow DiT (https://arxiv.org/abs/2212.09748) with one shared modulation (PixArt, Wan); text
enters as extra keys and values and, pooled, through the modulation; a small 3D convolution beside each
attention keeps outlines in one piece. Pure forwards, no state between calls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """``frames``, ``rows`` and ``columns`` are the largest latent; ``patch`` is a side, in its cells."""

    latent_channels: int = 12
    frames: int = 5
    rows: int = 8
    columns: int = 8
    patch: int = 2
    text_width: int = 128
    width: int = 224
    depth: int = 5
    heads: int = 7
    mlp_ratio: int = 3
    conv_width: int = 48


class ShapesTransformer(nn.Module):
    """latent_BCTHW, timestep_B in [0, 1000], text_BLD, mask_BL to velocity_BCTHW."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        patch_values = config.latent_channels * config.patch**2
        rows, columns = config.rows // config.patch, config.columns // config.patch
        self.patch_in = nn.Linear(patch_values, config.width)
        self.place_HWD = nn.Parameter(0.02 * torch.randn(rows, columns, config.width))
        self.moment_TD = nn.Parameter(0.02 * torch.randn(config.frames, config.width))
        self.time_mlp = nn.Sequential(
            nn.Linear(config.width, config.width), nn.SiLU(), nn.Linear(config.width, config.width)
        )
        self.pooled_text = nn.Linear(config.text_width, config.width)
        self.modulation = nn.Linear(config.width, 6 * config.width)
        self.blocks = nn.ModuleList(TransformerBlock(config) for _ in range(config.depth))
        self.final_modulation = nn.Linear(config.width, 2 * config.width)
        self.patch_out = nn.Linear(config.width, patch_values)
        for layer in (self.modulation, self.final_modulation, self.patch_out):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, latent_BCTHW: Tensor, timestep_B: Tensor, text_BLD: Tensor, mask_BL: Tensor) -> Tensor:
        frames = latent_BCTHW.shape[2]
        hidden_BTHWD = self.patch_in(self._patches(latent_BCTHW))
        hidden_BTHWD = hidden_BTHWD + self.place_HWD + self.moment_TD[:frames, None, None]

        pooled_BD = text_BLD.sum(dim=1) / mask_BL.sum(dim=1, keepdim=True)
        clock_BD = self.time_mlp(timestep_embedding(timestep_B, self.config.width))
        condition_BD = F.silu(clock_BD + self.pooled_text(pooled_BD))
        modulation_B6D = self.modulation(condition_BD).unflatten(-1, (6, -1))

        keys_B11N = _key_mask(mask_BL, hidden_BTHWD[0, ..., 0].numel())
        for block in self.blocks:
            hidden_BTHWD = block(hidden_BTHWD, modulation_B6D, text_BLD, keys_B11N)
        shift_BD, scale_BD = self.final_modulation(condition_BD).chunk(2, dim=-1)
        return self._unpatch(self.patch_out(_modulate(hidden_BTHWD, shift_BD, scale_BD)))

    def _patches(self, latent_BCTHW: Tensor) -> Tensor:
        patch = self.config.patch
        cells = latent_BCTHW.unflatten(-1, (-1, patch)).unflatten(-3, (-1, patch))  # B C T H p W q
        return cells.permute(0, 2, 3, 5, 1, 4, 6).flatten(4)

    def _unpatch(self, patches_BTHWP: Tensor) -> Tensor:
        patch = self.config.patch
        cells = patches_BTHWP.unflatten(-1, (self.config.latent_channels, patch, patch))  # B T H W C p q
        return cells.permute(0, 4, 1, 2, 5, 3, 6).flatten(-2).flatten(-3, -2)


class TransformerBlock(nn.Module):
    """Attention beside a convolution, then a perceptron, each gated by the modulation."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        width = config.width
        self.modulation_6D = nn.Parameter(torch.randn(6, width) / width**0.5)
        self.attention = Attention(config)
        self.squeeze = nn.Linear(width, config.conv_width)
        self.conv = nn.Conv3d(config.conv_width, config.conv_width, 3, padding=1)
        self.expand = nn.Linear(config.conv_width, width)
        self.widen = nn.Linear(width, config.mlp_ratio * width)
        self.narrow = nn.Linear(config.mlp_ratio * width, width)

    def forward(
        self, hidden_BTHWD: Tensor, modulation_B6D: Tensor, text_BLD: Tensor, keys_B11N: Tensor
    ) -> Tensor:
        table = (modulation_B6D + self.modulation_6D).unbind(1)
        shift_mix, scale_mix, gate_mix, shift_mlp, scale_mlp, gate_mlp = table
        input_BTHWD = _modulate(hidden_BTHWD, shift_mix, scale_mix)
        mixed_BTHWD = self.attention(input_BTHWD, text_BLD, keys_B11N) + self._neighbours(input_BTHWD)
        hidden_BTHWD = hidden_BTHWD + _over_tokens(gate_mix) * mixed_BTHWD
        input_BTHWD = _modulate(hidden_BTHWD, shift_mlp, scale_mlp)
        wide_BTHWD = F.gelu(self.widen(input_BTHWD), approximate="tanh")
        return hidden_BTHWD + _over_tokens(gate_mlp) * self.narrow(wide_BTHWD)

    def _neighbours(self, input_BTHWD: Tensor) -> Tensor:
        squeezed_BCTHW = self.squeeze(input_BTHWD).permute(0, 4, 1, 2, 3)
        return self.expand(F.silu(self.conv(squeezed_BCTHW)).permute(0, 2, 3, 4, 1))


class Attention(nn.Module):
    """Latent tokens attend to each other and to the text; queries and keys are normalised."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.text_kv = nn.Linear(config.text_width, 2 * config.width)
        self.query_norm = nn.LayerNorm(config.width // config.heads)
        self.key_norm = nn.LayerNorm(config.width // config.heads)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, input_BTHWD: Tensor, text_BLD: Tensor, keys_B11N: Tensor) -> Tensor:
        query, key, value = self._split(self.qkv(input_BTHWD.flatten(1, 3)), 3)
        text_key, text_value = self._split(self.text_kv(text_BLD), 2)
        query, key = self.query_norm(query), self.key_norm(torch.cat([key, text_key], dim=2))
        value = torch.cat([value, text_value], dim=2)
        mixed_BHNE = F.scaled_dot_product_attention(query, key, value, attn_mask=keys_B11N)
        return self.out(mixed_BHNE.transpose(1, 2).flatten(2)).view(input_BTHWD.shape)

    def _split(self, packed_BND: Tensor, parts: int) -> list[Tensor]:
        return [
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in packed_BND.chunk(parts, dim=-1)
        ]


def timestep_embedding(timestep_B: Tensor, width: int) -> Tensor:
    """Cosines and sines of the timestep at geometric frequencies from 1 to 1/10000."""
    half = width // 2
    rates_F = torch.exp(-math.log(10_000.0) * torch.arange(half, device=timestep_B.device) / half)
    angle_BF = timestep_B.to(torch.float32)[:, None] * rates_F
    return torch.cat([angle_BF.cos(), angle_BF.sin()], dim=-1)


def _modulate(hidden_BTHWD: Tensor, shift_BD: Tensor, scale_BD: Tensor) -> Tensor:
    normal_BTHWD = F.layer_norm(hidden_BTHWD, hidden_BTHWD.shape[-1:])
    return torch.addcmul(_over_tokens(shift_BD), normal_BTHWD, 1.0 + _over_tokens(scale_BD))


def _over_tokens(values_BD: Tensor) -> Tensor:
    return values_BD[:, None, None, None]


def _key_mask(mask_BL: Tensor, latent_tokens: int) -> Tensor:
    own_BN = mask_BL.new_ones(mask_BL.shape[0], latent_tokens)
    return torch.cat([own_BN, mask_BL], dim=1)[:, None, None]
