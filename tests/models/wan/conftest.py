"""Tiny Wan checkpoints, written once a session, and an engine that drives them in float32."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from restrike.cards.card import ModelCard
from restrike.cards.checkpoint import Folder
from restrike.models.wan.card import CARD

if TYPE_CHECKING:
    from restrike.engine.engine import Engine

    from .tiny import TinyWan

# Before huggingface_hub is imported: no test may reach the network.
os.environ["HF_HUB_OFFLINE"] = "1"

Checkpoints = Callable[["TinyWan"], Path]


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Checkpoints:
    """The folder of a tiny checkpoint of some kind; read-only for tests."""
    from .tiny import write

    root = tmp_path_factory.mktemp("wan")
    written: dict[TinyWan, Path] = {}

    def folder(kind: TinyWan) -> Path:
        if kind not in written:
            written[kind] = write(root / f"tiny-{len(written)}", kind)
        return written[kind]

    return folder


@pytest.fixture(scope="session")
def text_checkpoint(checkpoints: Checkpoints) -> Path:
    """A tiny Wan 2.1 text to video checkpoint."""
    from .tiny import TinyWan

    return checkpoints(TinyWan())


@pytest.fixture(scope="session")
def wan_engine() -> Engine:
    """An engine on the CPU in float32, in which the reference is exact."""
    from restrike.engine.engine import Engine

    return Engine(device="cpu", precision="float32")


def wan_at(folder: Path) -> ModelCard:
    """The wan card with its weights in a folder, not fitted yet."""
    return replace(CARD, location=Folder(folder))
