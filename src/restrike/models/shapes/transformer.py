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

from restrike.models.shapes.cells import CellBlock, cells_of, modulate, over_tokens, patches_of


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
    cell_width: int = 64


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
        self.cell_in = nn.Linear(config.latent_channels, config.cell_width)
        self.cells_before = CellBlock(config.cell_width, config.width)
        self.fine_in = nn.Linear(config.cell_width * config.patch**2, config.width)
        self.fine_out = nn.Linear(config.width, config.cell_width * config.patch**2)
        self.cells_after = nn.ModuleList(CellBlock(config.cell_width, config.width) for _ in range(2))
        self.cell_out = nn.Linear(config.cell_width, config.latent_channels)
        for layer in (self.modulation, self.final_modulation, self.fine_in, self.patch_out, self.cell_out):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, latent_BCTHW: Tensor, timestep_B: Tensor, text_BLD: Tensor, mask_BL: Tensor) -> Tensor:
        side = self.config.patch
        dtype = self.patch_in.weight.dtype
        latent_BTHWC = latent_BCTHW.to(dtype).permute(0, 2, 3, 4, 1)
        pooled_BD = text_BLD.sum(dim=1) / mask_BL.sum(dim=1, keepdim=True)
        clock_BD = self.time_mlp(timestep_embedding(timestep_B, self.config.width).to(dtype))
        condition_BD = F.silu(clock_BD + self.pooled_text(pooled_BD))

        fine_BTHWC = self.cells_before(self.cell_in(latent_BTHWC), condition_BD)
        hidden_BTHWD = self.patch_in(patches_of(latent_BTHWC, side)) + self.fine_in(
            patches_of(fine_BTHWC, side)
        )
        hidden_BTHWD = self._transformed(hidden_BTHWD, condition_BD, text_BLD, mask_BL)
        fine_BTHWC = fine_BTHWC + cells_of(self.fine_out(hidden_BTHWD), side)
        for block in self.cells_after:
            fine_BTHWC = block(fine_BTHWC, condition_BD)
        fine_BTHWC = F.layer_norm(fine_BTHWC, fine_BTHWC.shape[-1:])
        velocity_BTHWC = cells_of(self.patch_out(hidden_BTHWD), side) + self.cell_out(fine_BTHWC)
        return velocity_BTHWC.permute(0, 4, 1, 2, 3)

    def _transformed(
        self, hidden_BTHWD: Tensor, condition_BD: Tensor, text_BLD: Tensor, mask_BL: Tensor
    ) -> Tensor:
        frames = hidden_BTHWD.shape[1]
        hidden_BTHWD = hidden_BTHWD + self.place_HWD + self.moment_TD[:frames, None, None]
        modulation_B6D = self.modulation(condition_BD).unflatten(-1, (6, -1))
        keys_B11N = _key_mask(mask_BL, hidden_BTHWD[0, ..., 0].numel())
        for block in self.blocks:
            hidden_BTHWD = block(hidden_BTHWD, modulation_B6D, text_BLD, keys_B11N)
        shift_BD, scale_BD = self.final_modulation(condition_BD).chunk(2, dim=-1)
        return modulate(hidden_BTHWD, shift_BD, scale_BD)


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
        input_BTHWD = modulate(hidden_BTHWD, shift_mix, scale_mix)
        mixed_BTHWD = self.attention(input_BTHWD, text_BLD, keys_B11N) + self._neighbours(input_BTHWD)
        hidden_BTHWD = hidden_BTHWD + over_tokens(gate_mix) * mixed_BTHWD
        input_BTHWD = modulate(hidden_BTHWD, shift_mlp, scale_mlp)
        wide_BTHWD = F.gelu(self.widen(input_BTHWD), approximate="tanh")
        return hidden_BTHWD + over_tokens(gate_mlp) * self.narrow(wide_BTHWD)

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


def _key_mask(mask_BL: Tensor, latent_tokens: int) -> Tensor:
    own_BN = mask_BL.new_ones(mask_BL.shape[0], latent_tokens)
    return torch.cat([own_BN, mask_BL], dim=1)[:, None, None]
