"""The process that proves elsewhere: a cache of its own, and none of the mint's work done again."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from restrike.errors import Crashed
from restrike.mint.cell.host import cpu_target
from restrike.mint.request import MintRequest, Slot
from restrike.mint.second_process import adopt_in_second_process


def test_it_has_a_cache_of_its_own_and_the_headers_of_the_mint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Mapping[str, str]] = []

    def run(command: list[str], *, env: Mapping[str, str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        given.append(env)
        return subprocess.CompletedProcess(command, 9)

    monkeypatch.setattr(subprocess, "run", run)
    request = MintRequest(
        slot=Slot(ref="digits"),
        recipe="dynamo",
        target=cpu_target(),
        store=str(tmp_path / "cells"),
        scratch=str(tmp_path / "mint"),
    )
    with pytest.raises(Crashed, match="ended with 9 and proved nothing"):
        adopt_in_second_process(request, "transformer 8x8-batched", tmp_path / "second")
    (environment,) = given
    assert environment["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "second" / "inductor")
    # torch keeps headers that it compiled in advance here, beside no cache that a proof counts.
    assert environment["TMPDIR"] == str(tmp_path / "mint" / "tmp")
    assert Path(environment["TMPDIR"]).is_dir()
