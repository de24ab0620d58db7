"""An engine of its own for each test, whose weights may be changed, and two LoRAs for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from torch import nn

    from restrike.engine.engine import Engine


@pytest.fixture
def own() -> Engine:
    """An engine on the CPU with the card `digits`."""
    from restrike.engine.engine import Engine

    engine = Engine(device="cpu")
    engine.load("digits")
    return engine


@pytest.fixture
def transformer(own: Engine) -> nn.Module:
    """Its denoiser."""
    return own.load("digits").component("transformer")


@pytest.fixture
def a(tmp_path: Path, transformer: nn.Module) -> Path:
    """A LoRA of the denoiser."""
    from .loras import lora, written

    return written(tmp_path / "a.safetensors", lora(transformer, seed=1))


@pytest.fixture
def b(tmp_path: Path, transformer: nn.Module) -> Path:
    """Another one, on other layers but for one."""
    from .loras import lora, written

    layers = ("blocks.1.widen", "blocks.2.narrow", "modulation")
    return written(tmp_path / "b.safetensors", lora(transformer, layers, seed=2))
