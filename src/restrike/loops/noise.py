"""Noise that depends on (seed, item, purpose) alone.

Picture k of a batch of any size is thereby the picture that is made alone. Nothing here touches the global
random state.
"""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor


def item_generator(seed: int, item: int, purpose: str = "latent") -> torch.Generator:
    """A CPU generator for one picture of a request.

    Item 0 of the initial latent uses the seed itself, so that it equals what
    `torch.Generator().manual_seed(seed)` gives elsewhere; all others are derived by SHA-256.
    """
    generator = torch.Generator(device="cpu")
    if item == 0 and purpose == "latent":
        return generator.manual_seed(seed)
    text = f"restrike.noise:{seed}:{item}:{purpose}".encode()
    derived = int.from_bytes(hashlib.sha256(text).digest()[:8], "big")
    return generator.manual_seed(derived >> 1)


def normal(shape: tuple[int, ...], generator: torch.Generator, device: torch.device) -> Tensor:
    """Standard normal float32 noise, drawn on the CPU so that every device sees the same picture."""
    return torch.randn(shape, generator=generator, dtype=torch.float32, device="cpu").to(device)
