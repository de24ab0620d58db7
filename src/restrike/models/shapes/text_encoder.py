"""The text encoder: a small bidirectional transformer over tokens.

Axes: B prompts, L tokens, D channels. A pure forward; tokenizer.py makes its input.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from restrike.models.shapes.tokenizer import MAX_TOKENS, VOCABULARY_SIZE


@dataclass(frozen=True, kw_only=True)
class TextEncoderConfig:
    """``width`` is D of the text it gives to the transformer."""

    vocabulary: int = VOCABULARY_SIZE
    max_tokens: int = MAX_TOKENS
    width: int = 128
    depth: int = 2
    heads: int = 4


class ShapesTextEncoder(nn.Module):
    """token_BL and mask_BL to text_BLD; padded places give zeros."""

    def __init__(self, config: TextEncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.token = nn.Embedding(config.vocabulary, config.width)
        self.position_LD = nn.Parameter(0.02 * torch.randn(config.max_tokens, config.width))
        self.blocks = nn.ModuleList(TextBlock(config) for _ in range(config.depth))
        self.norm = nn.LayerNorm(config.width)

    def forward(self, token_BL: Tensor, mask_BL: Tensor) -> Tensor:
        text_BLD = self.token(token_BL) + self.position_LD[: token_BL.shape[1]]
        for block in self.blocks:
            text_BLD = block(text_BLD, mask_BL)
        return self.norm(text_BLD) * mask_BL[..., None]


class TextBlock(nn.Module):
    """Pre-norm attention and a two-layer perceptron."""

    def __init__(self, config: TextEncoderConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.norm_attention = nn.LayerNorm(config.width)
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)
        self.norm_mlp = nn.LayerNorm(config.width)
        self.widen = nn.Linear(config.width, 4 * config.width)
        self.narrow = nn.Linear(4 * config.width, config.width)

    def forward(self, text_BLD: Tensor, mask_BL: Tensor) -> Tensor:
        qkv_BLD = self.qkv(self.norm_attention(text_BLD))
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in qkv_BLD.chunk(3, -1)
        )
        mixed_BHLE = F.scaled_dot_product_attention(query, key, value, attn_mask=mask_BL[:, None, None])
        text_BLD = text_BLD + self.out(mixed_BHLE.transpose(1, 2).flatten(2))
        return text_BLD + self.narrow(F.gelu(self.widen(self.norm_mlp(text_BLD))))
