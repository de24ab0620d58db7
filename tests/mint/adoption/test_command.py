"""`restrike generate` with cells in its store, and what `--from` says of them afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.conftest import SEVEN, Restrike
from cli.conftest import restrike as restrike  # the fixture, here as there
from restrike.mint.store.store import CellStore
from restrike.settings import settings

from .forging import key_in, twin


@pytest.fixture(autouse=True)
def _store(kept: CellStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The kept cell in the store of the settings."""
    twin(kept, tmp_path / "store" / "cells")
    monkeypatch.setenv("RESTRIKE_STORE", str(tmp_path / "store"))
    settings.cache_clear()
    yield
    settings.cache_clear()


def test_cells_that_are_kept_serve_without_being_asked_for_and_off_means_off(
    restrike: Restrike, kept: CellStore
) -> None:
    outcome = restrike(*SEVEN, "-o", "a.png", "--json")
    made = json.loads(outcome.out)
    assert f"by cell {key_in(kept).hex[:12]}; eager: --cells off" in outcome.err
    assert list(made["compiled"]["cells"]) == [key_in(kept).hex]
    assert made["notices"] == []
    assert f"{key_in(kept).hex[:16]}\n" in restrike("inspect", "a.png").out
    outcome = restrike(*SEVEN, "-o", "b.png", "--json", "--cells", "off")
    plain = json.loads(outcome.out)
    assert outcome.err == ""
    assert plain["compiled"] == {"cells": {}, "executed": 0, "eager": {}}


def test_a_file_made_again_says_where_cells_may_change_its_bytes(restrike: Restrike) -> None:
    assert restrike(*SEVEN, "-o", "cell.png").code == 0
    assert restrike(*SEVEN, "-o", "eager.png", "--cells", "off").code == 0
    same = restrike("generate", "--from", "cell.png", "-o", "same.png")
    assert (same.code, "bytes may differ" in same.err) == (0, False)
    assert Path("same.png").read_bytes() == Path("cell.png").read_bytes()
    without = restrike("generate", "--from", "cell.png", "-o", "c.png", "--cells", "off")
    assert "was made with cells" in without.err
    now = restrike("generate", "--from", "eager.png", "-o", "d.png")
    assert "was made without cells, which are armed here; the bytes may differ: --cells off" in now.err


def test_a_run_says_which_cell_answered_how_many_forwards(restrike: Restrike, kept: CellStore) -> None:
    guided, plain = ("{prompt: a seven, steps: 5}", "{prompt: a seven, steps: 5, guidance_mode: none}")
    Path("run.yaml").write_text(
        f"seed: 3\nsteps:\n  guided: {{generate: digits, arguments: {guided}}}\n"
        f"  plain: {{generate: digits, arguments: {plain}}}\n"
    )
    assert restrike("run", "run.yaml").code == 0
    said, key = restrike("explain", "run/latest").out, key_in(kept).hex
    assert f"cells answered 5 of 5 forwards ({key[:12]} 5)\n" in said
    gap = "axis 0 of 'latent' is 1, compiled for 2"
    assert f"cells answered 0 of 5 forwards; eager: {gap} (5)" in said
    guided, plain = restrike("explain", "run/latest", "--json").json["steps"]
    assert guided["executed"]["compiled"] == {"cells": {key: 5}, "eager": {}}
    assert plain["executed"]["compiled"] == {"cells": {}, "eager": {gap: 5}}


def test_results_that_other_cells_could_have_answered_are_apart_where_a_match_is_exact(
    restrike: Restrike, tmp_path: Path
) -> None:
    step = "steps: {one: {generate: digits, seed: 3, arguments: {prompt: a seven}}}\n"
    Path("exact.yaml").write_text(f"reuse: {{match: exact}}\n{step}")
    Path("portable.yaml").write_text(step)

    def statuses(file: str) -> list[str]:
        outcome = restrike("run", file, "--json")
        assert outcome.code == 0, outcome.err
        return [each["status"] for each in json.loads(outcome.out)["steps"]]

    assert [statuses("exact.yaml") for _ in range(2)] == [["computed"], ["reused"]]
    assert [statuses("portable.yaml") for _ in range(2)] == [["computed"], ["reused"]]
    for cell in (tmp_path / "store" / "cells" / "sealed").glob("*.cell"):
        cell.unlink()
    assert statuses("exact.yaml") == ["computed"]
    assert statuses("portable.yaml") == ["reused"]
