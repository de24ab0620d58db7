"""The text encoder: one learned vector a digit, and one for the empty prompt.

Axes: B prompts, L tokens (always 1), D channels. A pure forward; prompts.py decides what a prompt means.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from restrike.models.digits.prompts import digit_of

NULL = 10
"""The token of the empty prompt, which classifier-free guidance steers away from."""


class DigitsTextEncoder(nn.Module):
    """token_B (int64, 0 to 10) to text_BLD, in the dtype of the weights."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.digit = nn.Embedding(NULL + 1, width)

    def forward(self, token_B: Tensor) -> Tensor:
        return self.digit(token_B)[:, None]


def tokenize(prompt: str, device: torch.device) -> Tensor:
    """token_B of one prompt, the empty one being the null token; raises Refused as `digit_of` does."""
    token = digit_of(prompt) if prompt.strip() else NULL
    return torch.tensor([token], device=device)
