"""From a prompt to text embeddings, exactly as the Wan pipelines of diffusers make them.

A prompt that is longer than the model reads is refused, never cut in silence.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from restrike.errors import Refused
from restrike.models.wan.layout import TEXT_TOKENS


def cleaned(prompt: str) -> str:
    """The prompt with its mojibake mended, HTML entities resolved twice and whitespace made single.

    Raises:
        Refused: ftfy is not installed; without it some prompts would give another picture.
    """
    try:
        import ftfy
    except ImportError as error:
        raise Refused("card 'wan' needs ftfy: pip install 'restrike[diffusers]'") from error
    unescaped = html.unescape(html.unescape(ftfy.fix_text(prompt))).strip()
    return re.sub(r"\s+", " ", unescaped).strip()


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """A prompt as the encoder reads it: `ids_BL` and `mask_BL`, (1, 512), padded behind its last token."""

    ids_BL: Tensor
    mask_BL: Tensor


def tokenized(prompt: str, what: str, tokenizer: Any) -> Tokens:
    """The tokens of a prompt. `what` names it in a refusal.

    Raises:
        Refused: it has more than 512 tokens.
    """
    tokens = tokenizer(
        [cleaned(prompt)],
        padding="max_length",
        max_length=TEXT_TOKENS,
        add_special_tokens=True,
        return_attention_mask=True,
        return_tensors="pt",
    )
    ids_BL = tokens.input_ids
    if ids_BL.shape[1] > TEXT_TOKENS:
        raise Refused(f"the {what} has {ids_BL.shape[1]} tokens, the model reads {TEXT_TOKENS}; shorten it")
    return Tokens(ids_BL=ids_BL, mask_BL=tokens.attention_mask)


def encoded(tokens: Tokens, text_encoder: Any) -> Tensor:
    """Embeddings of a prompt (1, 512, width), zero behind its last token."""
    length = int(tokens.mask_BL.gt(0).sum())
    device = text_encoder.device
    encoded_BLD = text_encoder(tokens.ids_BL.to(device), tokens.mask_BL.to(device)).last_hidden_state
    kept_BLD = torch.zeros_like(encoded_BLD)
    kept_BLD[:, :length] = encoded_BLD[:, :length]
    return kept_BLD
