"""One engine and one reloaded checkpoint a family for all tests of this folder, offline."""

from __future__ import annotations

import os

# Before the hub's client is imported by anyone.
os.environ["HF_HUB_OFFLINE"] = "1"

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from restrike.cards.card import ModelCard
from restrike.cards.checkpoint import Folder
from restrike.cards.registry import card
from restrike.engine.engine import Engine

from .families import FAMILIES, write

# torch's own __array__, which diffusers' schedulers call.
FOREIGN = "ignore:__array__ implementation doesn't accept a copy:DeprecationWarning"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Warnings are errors, but for the one that is none of ours."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(FOREIGN))


def card_at(folder: Path) -> ModelCard:
    """The pipeline card on a folder, also where a driven card would serve it."""
    return replace(card("pipeline"), location=Folder(folder))


def call_threads() -> list[str]:
    """The threads of calls that have not ended."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("pipeline-")]


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The checkpoint folder of a family, written at first use."""
    root = tmp_path_factory.mktemp("families")

    def folder(name: str) -> Path:
        return root / name if (root / name).exists() else write(FAMILIES[name], root / name)

    return folder


@pytest.fixture(scope="session")
def pipeline_engine() -> Engine:
    """An engine that keeps each family loaded."""
    return Engine(device="cpu")


@pytest.fixture(scope="session")
def card_of(folder_of: Callable[[str], Path]) -> Callable[[str], ModelCard]:
    """The card of a family."""
    cards: dict[str, ModelCard] = {}

    def found(name: str) -> ModelCard:
        return cards.setdefault(name, card_at(folder_of(name)))

    return found


@pytest.fixture(scope="session")
def reference_of(folder_of: Callable[[str], Path]) -> Callable[[str], Any]:
    """The pipeline of a family as diffusers itself loads it."""
    import torch
    from diffusers import DiffusionPipeline

    loaded: dict[str, Any] = {}

    def reference(name: str) -> Any:
        if name not in loaded:
            loaded[name] = DiffusionPipeline.from_pretrained(folder_of(name), dtype=torch.float32)
            loaded[name].set_progress_bar_config(disable=True)
        return loaded[name]

    return reference


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    """Whatever a test does to a request, no thread of it is left."""
    yield
    assert call_threads() == []
