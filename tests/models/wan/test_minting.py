"""What of a Wan checkpoint is compiled: each expert's call as the engine makes it, whatever the weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from restrike.cards.registry import find
from restrike.mint.cell.host import cpu_target
from restrike.mint.child import run
from restrike.mint.report import MintReport, read_report
from restrike.mint.request import MintRequest, slot_of

from .conftest import Checkpoints
from .tiny import TinyWan


def keys(folder: Path, scratch: Path, *shapes: str) -> MintReport:
    """The report of a mint that stops before compiling, run in this process."""
    scratch.mkdir()
    request = MintRequest(
        slot=slot_of(find(str(folder))),
        recipe="aot",
        target=cpu_target(),
        store=str(scratch / "cells"),
        scratch=str(scratch),
        shapes=shapes,
        precision="float32",
        keys_only=True,
    )
    run(request)
    report = read_report(request.report)
    assert report is not None
    return report


def test_two_experts_of_one_architecture_share_one_cell(checkpoints: Checkpoints, tmp_path: Path) -> None:
    report = keys(checkpoints(TinyWan(boundary_ratio=0.9)), tmp_path / "mint", "32x32x5")
    assert list(report.keys) == ["transformer 32x32x5-cfg", "transformer_2 32x32x5-cfg"]
    assert len(set(report.keys.values())) == 1


@pytest.mark.slow
def test_every_kind_of_checkpoint_can_be_written_down_with_a_key_of_its_own(
    checkpoints: Checkpoints, tmp_path: Path
) -> None:
    kinds = {
        "text": TinyWan(),
        "image": TinyWan(image=True, image_tokens=True),
        "either": TinyWan(expand_timesteps=True),
    }
    found = [keys(checkpoints(kind), tmp_path / name, "32x32x5") for name, kind in kinds.items()]
    assert not [report.failed for report in found if report.failed]
    assert len({key for report in found for key in report.keys.values()}) == 3
