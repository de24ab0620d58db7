"""Reads digits by the nearest mean of real ones: simple enough to be trusted without training."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray

from restrike.engine.result import Picture
from restrike.models.digits.data import Digits, load


@cache
def _means_KP() -> NDArray[np.float32]:
    digits: Digits = load().train
    ink_BP = digits.ink_BCHW.flatten(1)
    return torch.stack([ink_BP[digits.digit_B == digit].mean(dim=0) for digit in range(10)]).numpy()


def read_ink(ink_HW: NDArray[np.floating]) -> int:
    """The digit whose mean is nearest."""
    return int(np.square(_means_KP() - ink_HW.reshape(1, -1)).sum(axis=1).argmin())


def read_picture(picture: Picture) -> int:
    """The digit of a generated picture."""
    return read_ink(picture.frames_THWC[0, :, :, 0] / 255)
