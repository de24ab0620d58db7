"""Mints in real child processes, of cards with one fault each, with a compiler that remembers."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from restrike.mint.cell.host import cpu_target
from restrike.mint.child import run
from restrike.mint.parent import Minted, mint
from restrike.mint.report import MintReport, read_report
from restrike.mint.request import MintRequest, Slot
from restrike.mint.store.store import CellStore

PLUGIN = Path(__file__).parent / "plugin"
RECIPES = ("aot", "dynamo")


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A folder for mints, and the environment in which their children find the faulty cards."""

    root: Path

    @property
    def store(self) -> CellStore:
        return CellStore(self.root / "cells")

    def request(self, card: str, recipe: Any = "aot", **changes: Any) -> MintRequest:
        asked = MintRequest(
            slot=Slot(ref=card),
            recipe=recipe,
            target=cpu_target(),
            store=str(self.root / "cells"),
            scratch=str(self.root / f"{card}-{recipe}-{len(list(self.root.iterdir()))}"),
        )
        return replace(asked, **changes)

    def mint(self, card: str, recipe: Any = "aot", *, stalled_s: float = 300.0, **changes: Any) -> Minted:
        return mint(self.request(card, recipe, **changes), stalled_s=stalled_s)

    def here(self, card: str, recipe: Any = "aot", **changes: Any) -> MintReport:
        """What a child does, in this process: its report. Nothing of it is watched or tried again."""
        request = self.request(card, recipe, **changes)
        Path(request.scratch).mkdir()
        run(request)
        report = read_report(request.report)
        assert report is not None
        return report


def plugin_path(folder: Path) -> str:
    """What PYTHONPATH must hold for the faulty cards to be installed."""
    import sys

    sys.path.insert(0, str(PLUGIN))
    try:
        from faulty.cards import CARDS  # pyright: ignore[reportMissingImports]
    finally:
        sys.path.remove(str(PLUGIN))
    info = folder / "faulty-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1.0\n")
    lines = [f"{name} = faulty.cards:{name}" for name in CARDS]
    (info / "entry_points.txt").write_text("\n".join(["[restrike.cards]", *lines, ""]))
    return f"{folder}:{PLUGIN}"


def remembering_compiler(memory: Path) -> dict[str, str]:
    """The environment in which compiling the same thing again costs nothing; skips without a compiler."""
    real = shutil.which("g++")
    if real is None:
        pytest.skip("no C++ compiler is here")
    memory.mkdir(parents=True, exist_ok=True)
    return {
        "CXX": str(PLUGIN / "g++"),
        "MINT_TEST_COMPILER": real,
        "MINT_TEST_MEMORY": str(memory),
    }
