"""Words to token ids over a closed vocabulary; knows which words it does not know.

Other ways to say a thing become the words of the vocabulary. Words that change nothing here (articles,
``on``, ``background``) are known and take no token, so a prompt is a handful of tokens after the one that
opens every sequence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch
from torch import Tensor

from restrike.models.shapes.scene import BACKGROUNDS, COLOURS, MOTIONS, SHAPES, SIZES, SPEEDS

MAX_TOKENS = 12
PAD, OPEN = 0, 1

_SYNONYMS = {
    "circle": "disc disk ball dot round",
    "square": "box",
    "triangle": "pyramid",
    "cross": "plus",
    "ring": "donut doughnut hoop",
    "purple": "violet",
    "cyan": "turquoise teal",
    "grey": "gray",
    "moving": "going sliding gliding drifting flying moves slides goes travelling traveling",
    "left": "leftward leftwards",
    "right": "rightward rightwards",
    "up": "upward upwards",
    "down": "downward downwards",
    "moving up": "rising rises ascending",
    "moving down": "falling falls descending",
    "growing": "grows expanding expands bigger",
    "shrinking": "shrinks contracting contracts smaller",
    "resting": "still standing stationary motionless static rest rests",
    "small": "tiny little",
    "large": "big huge",
    "slowly": "slow",
    "quickly": "quick fast rapidly",
}
_ARTICLES = ("a", "an", "the", "its", "that", "is", "and", "very", "getting", "background")
_PREPOSITIONS = ("on", "in", "of", "to", "at", "front", "against", "with")
_SILENT = frozenset({*_ARTICLES, *_PREPOSITIONS})

_TOKENS = tuple(dict.fromkeys((*COLOURS, *SHAPES, *MOTIONS, *BACKGROUNDS, *SIZES, *SPEEDS, "moving")))
_TOKEN_OF = {token: index + 2 for index, token in enumerate(_TOKENS)}
_IDS_OF = {token: (number,) for token, number in _TOKEN_OF.items()} | {
    word: tuple(_TOKEN_OF[token] for token in meaning.split())
    for meaning, words in _SYNONYMS.items()
    for word in words.split()
}

VOCABULARY_SIZE = len(_TOKENS) + 2


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """``token_BL`` int64, and ``mask_BL`` bool, true where a token stands."""

    token_BL: Tensor
    mask_BL: Tensor


def tokenize(prompts: list[str]) -> Tokens:
    """Token ids of each prompt, padded to ``MAX_TOKENS``; unknown words and words beyond it are left out."""
    token_BL = torch.full((len(prompts), MAX_TOKENS), PAD, dtype=torch.int64)
    for row, prompt in enumerate(prompts):
        ids = [OPEN]
        for word in _words(prompt):
            ids += [token for token in _IDS_OF.get(word, ()) if token != ids[-1]]
        ids = ids[:MAX_TOKENS]
        token_BL[row, : len(ids)] = torch.tensor(ids)
    return Tokens(token_BL=token_BL, mask_BL=token_BL != PAD)


def unknown_words(prompt: str) -> tuple[str, ...]:
    """The words of the prompt that the model has never seen, in order, each once."""
    words = _words(prompt)
    return tuple(dict.fromkeys(word for word in words if word not in _IDS_OF and word not in _SILENT))


def _words(prompt: str) -> list[str]:
    return re.findall(r"[^\W_]+", prompt.lower())
