"""How the kernels here are launched, and what they ask of their arguments' memory."""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch import Tensor


def launch(kernel: Any, grid: tuple[int, ...], first: Tensor, *rest: Any, **options: Any) -> None:
    """Run a Triton kernel on the device of its first argument, which need not be the current one."""
    with torch.cuda.device_of(first):
        kernel[grid](first, *rest, **options)


def plain(*tensors: Tensor) -> bool:
    """Whether all are float32, contiguous and of one shape."""
    first = tensors[0]
    return all(
        each.dtype == torch.float32 and each.is_contiguous() and each.shape == first.shape for each in tensors
    )


def item_size(values: Tensor) -> int:
    """The elements of one item of the batch."""
    return prod(values.shape[1:])


def step(number: Tensor) -> int:
    """How far apart the numbers of two items lie: a number of all items is 0-d, else a column."""
    return 0 if number.numel() == 1 else 1


def numbers(values: Tensor, *each: Tensor) -> bool:
    """Whether each is a float32 number for all items of `values`, or a dense column with one an item."""
    return all(
        number.dtype == torch.float32
        and (number.numel() == 1 or (number.numel() == len(values) == len(number) and number.is_contiguous()))
        for number in each
    )
