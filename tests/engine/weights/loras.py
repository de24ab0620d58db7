"""Writes small LoRA files as trainers write them: random, from a seed, for layers of any module."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

DIGITS = ("blocks.0.qkv", "blocks.2.narrow", "patch_out")
"""Layers of the digits' transformer that change its pictures."""


def lora(
    module: nn.Module,
    layers: Sequence[str] = DIGITS,
    *,
    seed: int = 0,
    rank: int = 2,
    size: float = 0.3,
    prefix: str = "transformer.",
    alpha: float | None = None,
    bias: bool = False,
) -> dict[str, Tensor]:
    """The tensors of a LoRA in peft's names, for linear and convolutional layers of a module."""
    generator = torch.Generator().manual_seed(seed)
    tensors: dict[str, Tensor] = {}
    for name in layers:
        layer = module.get_submodule(name)
        weight: Any = layer.weight
        ones = (1,) * (weight.ndim - 2)
        down = torch.randn(rank, *weight.shape[1:], generator=generator)
        up = torch.randn(weight.shape[0], rank, *ones, generator=generator)
        tensors[f"{prefix}{name}.lora_A.weight"] = size * down / weight[0].numel() ** 0.5
        tensors[f"{prefix}{name}.lora_B.weight"] = size * up
        if alpha is not None:
            tensors[f"{prefix}{name}.alpha"] = torch.tensor(alpha)
        if bias:
            tensors[f"{prefix}{name}.lora_B.bias"] = size * torch.randn(weight.shape[0], generator=generator)
    return tensors


def written(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any] | None = None) -> Path:
    """The file; `metadata` is a configuration of peft, as diffusers writes it into the header."""
    header = {"format": "pt"}
    if metadata is not None:
        header["lora_adapter_metadata"] = json.dumps(metadata)
    save_file({name: value.contiguous() for name, value in tensors.items()}, path, metadata=header)
    return path


def state(module: nn.Module) -> dict[str, bytes]:
    """The bytes of all parameters and buffers."""
    return {
        name: value.detach().contiguous().view(torch.uint8).numpy().tobytes()
        if value.ndim
        else value.detach().numpy().tobytes()
        for name, value in module.state_dict().items()
    }


def addresses(module: nn.Module) -> dict[str, int]:
    """Where each of them lies."""
    return {name: value.data_ptr() for name, value in module.state_dict().items()}
