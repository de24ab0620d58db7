"""The page on cells names every refusal and every capability, in the words of the code."""

from __future__ import annotations

from pathlib import Path

from restrike.mint.cell import capability, layout
from restrike.mint.cell.refusal import CellRefusal

PAGE = (Path(__file__).parents[3] / "docs" / "cells.md").read_text(encoding="utf-8")


def test_every_refusal_is_on_the_page() -> None:
    assert not [reason.value for reason in CellRefusal if f"`{reason}`" not in PAGE]


def test_every_capability_is_on_the_page() -> None:
    for machine in ("x86_64", "aarch64"):
        assert f"| {machine} |" in PAGE
        for level in capability.ladder(machine):
            assert f"| `{level.name}` |" in PAGE
            # Linux calls lzcnt by the name of AMD's set.
            assert not [flag for flag in level.needs - {"abm"} if flag.removeprefix("avx512") not in PAGE]


def test_the_sizes_on_the_page_are_those_of_the_file() -> None:
    assert f"at most {layout.MAX_HEADER_BYTES >> 10} KiB" in PAGE
    assert len(layout.MAGIC) == 16
