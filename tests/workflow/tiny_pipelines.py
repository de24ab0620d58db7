"""Tiny pipelines and LoRAs for tests of the `pipeline` step, written as published ones are."""

from __future__ import annotations

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

# Before the hub's client is imported by anyone.
os.environ["HF_HUB_OFFLINE"] = "1"

ATTENTIONS = ("attn1.to_q", "attn1.to_v", "attn2.to_k")
RANK = 2


def families() -> Any:
    """The families of the pipeline card's own tests, which lie in a package of another root."""
    file = Path(__file__).parents[1] / "models" / "pipeline" / "families.py"
    if "tiny_families" not in sys.modules:
        spec = spec_from_file_location("tiny_families", file)
        assert spec is not None
        assert spec.loader is not None
        sys.modules["tiny_families"] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules["tiny_families"])
    return sys.modules["tiny_families"]


def checkpoint(name: str, folder: Path, *, seed: int = 0) -> Path:
    """The checkpoint folder of a family."""
    found = families()
    return found.write(found.FAMILIES[name], folder, seed)


def lora(file: Path, checkpoint: Path, *, seed: int, extra: str | None = None, half: bool = False) -> Path:
    """A LoRA for the unet of an SD checkpoint; `extra` adds a module that it lacks, `half` leaves one out."""
    import torch
    from safetensors import safe_open
    from safetensors.torch import save_file

    noise = torch.Generator().manual_seed(seed)
    tensors: dict[str, Any] = {}
    with safe_open(checkpoint / "unet" / "diffusion_pytorch_model.safetensors", framework="pt") as weights:
        names = [key for key in weights.keys() if key.endswith(tuple(f"{a}.weight" for a in ATTENTIONS))]  # noqa: SIM118
        shapes = {key.removesuffix(".weight"): weights.get_tensor(key).shape for key in names}
    if extra is not None:
        shapes[extra] = torch.Size((8, 8))
    for module, (outputs, inputs) in shapes.items():
        tensors[f"unet.{module}.lora_A.weight"] = torch.randn(RANK, inputs, generator=noise)
        tensors[f"unet.{module}.lora_B.weight"] = torch.randn(outputs, RANK, generator=noise)
    if half:
        tensors.pop(f"unet.{next(iter(shapes))}.lora_B.weight")
    save_file(tensors, file)
    return file
