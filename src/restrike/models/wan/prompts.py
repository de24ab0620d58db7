"""From a prompt to text embeddings, exactly as the Wan pipelines of diffusers make them.

A prompt that is longer than the model reads is refused, never cut in silence.
"""

from __future__ import annotations

import html
import re
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


def encode(prompt: str, what: str, tokenizer: Any, text_encoder: Any) -> Tensor:
    """Embeddings of a prompt (1, 512, width), zero behind its last token. `what` names it in a refusal.

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
    ids_BL, mask_BL = tokens.input_ids, tokens.attention_mask
    if ids_BL.shape[1] > TEXT_TOKENS:
        raise Refused(f"the {what} has {ids_BL.shape[1]} tokens, the model reads {TEXT_TOKENS}; shorten it")
    length = int(mask_BL.gt(0).sum())
    device = text_encoder.device
    encoded_BLD = text_encoder(ids_BL.to(device), mask_BL.to(device)).last_hidden_state
    kept_BLD = torch.zeros_like(encoded_BLD)
    kept_BLD[:, :length] = encoded_BLD[:, :length]
    return kept_BLD
