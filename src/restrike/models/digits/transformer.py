"""The denoiser: a flow-matching diffusion transformer over sixteen patches of 2x2 latent cells.

Axes: B items, C latent channels, H, W latent rows and columns, N tokens, L text tokens, D channels,
E channels of a head. Predicts velocity = noise - clean at sigma = timestep / 1000. Blocks follow Peebles
and Xie 2023, "Scalable Diffusion Models with Transformers", with one modulation shared by all blocks and a
learned offset in each (Chen et al. 2024, "PixArt-alpha"). Pure forwards, no state between calls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """`side` and `patch` are in latent cells."""

    side: int = 8
    patch: int = 2
    width: int = 96
    depth: int = 4
    heads: int = 4
    mlp_ratio: int = 4


class DigitsTransformer(nn.Module):
    """latent_BCHW (float32), timestep_B in [0, 1000], text_BLD to velocity_BCHW (float32)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.patch_in = nn.Linear(config.patch**2, width)
        self.place_ND = nn.Parameter(0.02 * torch.randn((config.side // config.patch) ** 2, width))
        self.time_mlp = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.modulation = nn.Linear(width, 6 * width)
        self.blocks = nn.ModuleList(TransformerBlock(config) for _ in range(config.depth))
        self.final_modulation = nn.Linear(width, 2 * width)
        self.patch_out = nn.Linear(width, config.patch**2)
        for layer in (self.modulation, self.final_modulation, self.patch_out):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, latent_BCHW: Tensor, timestep_B: Tensor, text_BLD: Tensor) -> Tensor:
        patch, dtype = self.config.patch, text_BLD.dtype
        patches_BNP = F.pixel_unshuffle(latent_BCHW.to(dtype), patch).flatten(2).transpose(1, 2)
        hidden_BND = torch.cat([self.patch_in(patches_BNP) + self.place_ND, text_BLD], dim=1)

        clock_BD = self.time_mlp(timestep_embedding(timestep_B, self.config.width).to(dtype))
        condition_B1D = F.silu(clock_BD[:, None] + text_BLD.mean(dim=1, keepdim=True))
        modulation_B6D = self.modulation(condition_B1D).unflatten(-1, (6, -1))[:, 0]
        for block in self.blocks:
            hidden_BND = block(hidden_BND, modulation_B6D)

        shift_B1D, scale_B1D = self.final_modulation(condition_B1D).chunk(2, dim=-1)
        hidden_BND = _modulated(hidden_BND[:, : patches_BNP.shape[1]], shift_B1D, scale_B1D)
        velocity_BPN = self.patch_out(hidden_BND).transpose(1, 2)
        cells_BPHW = velocity_BPN.unflatten(-1, (self.config.side // patch, -1))
        return F.pixel_shuffle(cells_BPHW, patch).to(latent_BCHW.dtype)


class TransformerBlock(nn.Module):
    """Attention over all tokens, then a perceptron, each gated by the modulation."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        width = config.width
        self.heads = config.heads
        self.modulation_6D = nn.Parameter(torch.randn(6, width) / width**0.5)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.widen = nn.Linear(width, config.mlp_ratio * width)
        self.narrow = nn.Linear(config.mlp_ratio * width, width)

    def forward(self, hidden_BND: Tensor, modulation_B6D: Tensor) -> Tensor:
        table_B6D = modulation_B6D + self.modulation_6D
        shift_mix, scale_mix, gate_mix, shift_mlp, scale_mlp, gate_mlp = table_B6D.split(1, dim=1)
        mixed_BND = self._attention(_modulated(hidden_BND, shift_mix, scale_mix))
        hidden_BND = torch.addcmul(hidden_BND, gate_mix, mixed_BND)
        wide_BND = F.gelu(self.widen(_modulated(hidden_BND, shift_mlp, scale_mlp)), approximate="tanh")
        return torch.addcmul(hidden_BND, gate_mlp, self.narrow(wide_BND))

    def _attention(self, input_BND: Tensor) -> Tensor:
        packed_3BHNE = self.qkv(input_BND).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query_BHNE, key_BHNE, value_BHNE = packed_3BHNE.unbind()
        mixed_BHNE = F.scaled_dot_product_attention(query_BHNE, key_BHNE, value_BHNE)
        return self.out(mixed_BHNE.transpose(1, 2).flatten(2))


def timestep_embedding(timestep_B: Tensor, width: int) -> Tensor:
    """Cosines and sines of the timestep at geometric frequencies from 1 down to 1/10000 (float32)."""
    half = width // 2
    rates_F = torch.exp(-math.log(10_000.0) * torch.arange(half, device=timestep_B.device) / half)
    angle_BF = timestep_B.to(torch.float32)[:, None] * rates_F
    return torch.cat([angle_BF.cos(), angle_BF.sin()], dim=-1)


def _modulated(hidden_BND: Tensor, shift_B1D: Tensor, scale_B1D: Tensor) -> Tensor:
    normal_BND = F.layer_norm(hidden_BND, hidden_BND.shape[-1:])
    return torch.addcmul(shift_B1D, normal_BND, 1 + scale_B1D)
