"""What a component will hold, read from the headers of its weight files before anything is loaded.

A guess for decisions that cannot wait: where a component is loaded in another way, what is measured differs.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

_SHARD = re.compile(r"-\d+-of-\d+$")
_FLOATS = ("F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2")
_ITEM_BYTES = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2}


def expected_bytes(files: Iterable[Path], dtype: str) -> int:
    """The bytes of the weights in these files, their floats held in `dtype` (a torch name).

    Where a folder holds several variants of the same weights (fp16 beside the plain ones), the smallest
    counts, for one of them is loaded.
    """
    item_bytes: int = getattr(torch, dtype).itemsize
    variants: dict[Path, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for file in files:
        if file.suffix == ".safetensors":
            variants[file.parent][_SHARD.sub("", file.stem)] += _held(file, item_bytes)
    return sum(min(sizes.values()) for sizes in variants.values())


def _held(file: Path, float_bytes: int) -> int:
    try:
        with safe_open(file, framework="pt") as header:
            slices = [header.get_slice(name) for name in header.keys()]  # noqa: SIM118
            return sum(
                math.prod(part.get_shape())
                * (float_bytes if part.get_dtype() in _FLOATS else _ITEM_BYTES.get(part.get_dtype(), 1))
                for part in slices
            )
    except (SafetensorError, OSError):
        return 0  # Loading it will say what is wrong with it.
