"""Many jobs of several cards and kinds on two workers: each as the command line makes it, memory flat."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from restrike.server.jobs.model import Job, JobState
from restrike.workflow.api import open_session
from restrike.workflow.session import Asked
from restrike.workflow.source import read_tree
from server.pool.house import House, digit, flow

FLAT_BYTES = 256 << 20
"""What a worker's resident bytes may grow by from the first quarter of the jobs to the end."""


def _shape(seed: int) -> dict[str, Any]:
    return {
        "generate": "shapes",
        "arguments": {"prompt": "red circle", "steps": 2, "frames": 1},
        "seed": seed,
    }


def _kinds(own: str | None) -> list[dict[str, Any]]:
    """The distinct workflows; `own` is a third card's folder."""
    third = [] if own is None else [_own(own, seed) for seed in range(2)]
    return [
        *(flow(("a", digit(seed=seed, steps=3)), name="digits") for seed in range(4)),
        *(flow(("a", _shape(seed)), name="shapes") for seed in range(3)),
        flow(("a", digit(seed=9, steps=3)), ("b", _shape(9)), name="both"),
        *third,
    ]


def _own(folder: str, seed: int) -> dict[str, Any]:
    arguments = {"prompt": "a red circle", "steps": 2, "width": 16, "height": 16, "frames": 1}
    return flow(("a", {"generate": folder, "arguments": arguments, "seed": seed}), name="own")


def _by_command_line(definition: dict[str, Any], folder: Path) -> dict[str, str]:
    """The digest of each file that `restrike run` makes of a workflow, with nothing kept before."""
    folder.mkdir()
    file = folder / "flow.json"
    file.write_text(json.dumps(definition))
    environment = os.environ | {"RESTRIKE_STORE": str(folder / "store"), "RESTRIKE_WORKSPACE": str(folder)}
    command = [sys.executable, "-m", "restrike", "run", str(file), "--device", "cpu", "--json"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return {
        part["file"]: part["sha256"] for step in json.loads(ran.stdout)["steps"] for part in step["files"]
    }


def _by_session(definition: dict[str, Any], folder: Path) -> dict[str, str]:
    """The same from a session of this process, which is what the command line opens."""
    session = open_session(folder, store=folder / "store", device="cpu")
    manifest = session.run(read_tree(definition), Asked())
    return {part.file: part.sha256 for step in manifest.steps for part in step.files}


def _files(house: House, job: Job) -> dict[str, str]:
    folder = house.place.workspace("default") / str(job.run)
    names = [part.file for step in house.manifest(job).steps for part in step.files]
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}


def _rss_bytes(house: House) -> dict[int, int]:
    assert house.pool is not None
    pids = [seat.pid or 0 for seat in house.pool.seats()]
    pages = {pid: int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids}
    return {pid: count * os.sysconf("SC_PAGE_SIZE") for pid, count in pages.items()}


def _run_all(house: House, kinds: list[dict[str, Any]], count: int) -> list[Job]:
    """Run so many jobs, a half of them without reuse; memory must be flat after the first quarter."""
    jobs: list[Job] = []
    for number in range(count):
        if number == count // 4:
            for job in jobs:
                house.ended(job)
            early = _rss_bytes(house)
        jobs.append(house.submit(kinds[number % len(kinds)], reuse=number % 2 == 0))
    ended = [house.ended(job) for job in jobs]
    late = _rss_bytes(house)
    assert early.keys() == late.keys(), "a worker was replaced"
    assert all(late[pid] - early[pid] < FLAT_BYTES for pid in late), (early, late)
    return ended


def _check(house: House, kinds: list[dict[str, Any]], count: int, expected: list[dict[str, str]]) -> None:
    ended = _run_all(house, kinds, count)
    assert [job.state for job in ended] == [JobState.SUCCEEDED] * count
    assert {job.device for job in ended} == {"cpu:0", "cpu:1"}
    assert len({json.dumps(files, sort_keys=True) for files in expected}) == len(kinds)
    for number, job in enumerate(ended):
        assert _files(house, job) == expected[number % len(kinds)], job


def test_mixed_jobs_equal_a_session_without_a_server(pair: House, tmp_path: Path) -> None:
    kinds = _kinds(None)
    expected = [_by_session(kind, tmp_path / f"alone{at}") for at, kind in enumerate(kinds)]
    _check(pair, kinds, 24, expected)


@pytest.mark.slow
def test_a_thousand_mixed_jobs_of_three_cards_equal_the_command_lines(pair: House, tmp_path: Path) -> None:
    from models.wan import tiny

    kinds = _kinds(str(tiny.write(tmp_path / "wan")))
    expected = [_by_command_line(kind, tmp_path / f"cli{at}") for at, kind in enumerate(kinds)]
    _check(pair, kinds, 1000, expected)
