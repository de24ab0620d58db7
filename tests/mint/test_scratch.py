"""What a mint leaves behind: its papers for a week, nothing else."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

from restrike.mint.scratch import KEPT_S, new_scratch, tidy
from restrike.store.owner import Owner


def test_tidying_leaves_the_papers_of_every_attempt_alone(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "attempt-2"):
        (folder / "inductor" / "ab").mkdir(parents=True)
        (folder / "inductor" / "ab" / "kernel.so").touch()
        for name in ("request.json", "events.jsonl", "report.json", "output.txt", "draft.cell"):
            (folder / name).touch()
    tidy(tmp_path)
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    papers = {"request.json", "events.jsonl", "report.json", "output.txt"}
    assert left == papers | {f"attempt-2/{name}" for name in papers}


def test_a_new_folder_is_its_owners_and_old_ones_go(tmp_path: Path) -> None:
    old, young = new_scratch(tmp_path), new_scratch(tmp_path)
    long_ago = time.time() - KEPT_S - 60
    os.utime(old, (long_ago, long_ago))
    found = new_scratch(tmp_path)
    assert found.stat().st_mode & 0o077 == 0
    assert sorted(tmp_path.iterdir()) == sorted([young, found])


def test_what_a_dead_process_left_is_tidied_and_what_a_living_one_uses_is_not(tmp_path: Path) -> None:
    dead, living = new_scratch(tmp_path), new_scratch(tmp_path)
    for folder in (dead, living):
        for name in ("report.json", "draft.cell"):
            (folder / name).touch()
    gone = replace(Owner.here(), began="1")
    (dead / "owner").write_text(str(gone))
    new_scratch(tmp_path)
    assert {path.name for path in dead.iterdir()} == {"report.json"}
    assert {path.name for path in living.iterdir()} == {"report.json", "draft.cell", "owner"}
