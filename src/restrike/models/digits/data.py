"""Real handwritten digits, from the data that scikit-learn ships; needs the extra `train`, never the network.

Axes: B digits, C channels (1), H, W rows and columns (8). Ink runs from 0 (none) to 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from restrike.errors import Refused

SIDE_PX = 8
LEVELS = 16
"""The most ink that a pixel of the data holds."""

_HELD_OUT = 360
_SPLIT_SEED = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Digits:
    """`ink_BCHW` float32 and `digit_B` int64."""

    ink_BCHW: Tensor
    digit_B: Tensor


@dataclass(frozen=True, kw_only=True)
class Split:
    """1,437 digits to train on and 360 that no training sees, balanced over the ten digits."""

    train: Digits
    held_out: Digits


def load() -> Split:
    """The 1,797 digits, always split alike; raises Refused when scikit-learn is not installed."""
    try:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split
    except ImportError as error:
        raise Refused("real digits need an extra: pip install 'restrike[train]'") from error
    level_BP, digit_B = load_digits(return_X_y=True)
    seen, kept, seen_digits, kept_digits = train_test_split(
        level_BP, digit_B, test_size=_HELD_OUT, random_state=_SPLIT_SEED, stratify=digit_B
    )
    return Split(train=_digits(seen, seen_digits), held_out=_digits(kept, kept_digits))


def _digits(level_BP: object, digit_B: object) -> Digits:
    level = torch.as_tensor(level_BP, dtype=torch.float32)
    return Digits(
        ink_BCHW=level.view(-1, 1, SIDE_PX, SIDE_PX) / LEVELS,
        digit_B=torch.as_tensor(digit_B, dtype=torch.int64),
    )
