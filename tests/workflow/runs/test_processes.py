"""Several processes on one store: equal work is done once, killed work is taken over, files never mix."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from restrike.errors import Refused
from restrike.workflow.runs import RunFolder

from .lab import OWN_TASKS, Lab, computed, digit, does, files, resized, snapshot, steps

MAIN = "import sys; from restrike.cli.app import run; sys.exit(run(sys.argv[1:]))"
PLAN = """
import sys
from restrike.cli.app import run
code = run(sys.argv[1:])
heavy = [name for name in ("torch", "diffusers", "transformers", "av", "cv2") if name in sys.modules]
print("imported", *heavy, file=sys.stderr)
sys.exit(code)
"""


class Processes:
    """Starts the command on the lab's folders, and ends what is left of it."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str, code: str = MAIN) -> subprocess.Popen[str]:
        environment = {
            **os.environ,
            "RESTRIKE_STORE": str(self.lab.root / "store"),
            "RESTRIKE_WORKSPACE": str(self.lab.root / self.lab.workspace),
        }
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=self.lab.root,
        )
        self.started.append(process)
        return process

    def run(self, tree: dict[str, Any], *more: str) -> subprocess.Popen[str]:
        path = self.lab.root / "w.json"
        path.write_text(json.dumps(tree))
        return self.start("run", str(path), "--allow-code", str(OWN_TASKS), *more)


@pytest.fixture
def processes(lab: Lab) -> Iterator[Processes]:
    """Processes on the lab's folders."""
    found = Processes(lab)
    yield found
    for process in found.started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def until(done: Callable[[], Any], what: str, limit_s: float = 120) -> Any:
    """Wait for something to become true."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if value := done():
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what}: not within {limit_s} s")


def slow(lab: Lab) -> dict[str, Any]:
    """Two steps, of which the second waits for the gate."""
    return steps(
        first={
            "task": "own.shout",
            "arguments": {"text": "a", "log": str(lab.root / "shouts")},
            "result": {},
        },
        second={
            "task": "own.slow",
            "arguments": {"text": "$step.first", "log": str(lab.log), "gate": str(lab.root / "gate")},
        },
    )


def folder(lab: Lab, number: int) -> RunFolder:
    return RunFolder(lab.root / lab.workspace / "w" / f"{number:04d}")


def started(lab: Lab, number: int) -> bool:
    return (folder(lab, number).path / "manifest.json").exists()


def test_what_one_process_made_another_reuses(lab: Lab, processes: Processes) -> None:
    tree = steps(base=digit(), big=resized("$step.base"))
    out, err = processes.run(tree).communicate(timeout=300)
    assert len(out.splitlines()) == 1, err
    manifest = lab.run(tree)
    assert computed(manifest) == set()
    assert lab.engine.generations == 0
    assert list(files(lab, manifest).values()) == [Path(out.strip()).read_bytes()]


def test_a_killed_run_is_listed_refused_and_resumed(lab: Lab, processes: Processes) -> None:
    tree = slow(lab)
    process = processes.run(tree)
    pid = int(until(lambda: lab.log.exists() and lab.log.read_text(), "the second step").split()[0])
    with pytest.raises(Refused, match="still running"):
        folder(lab, 1).delete()
    with pytest.raises(Refused, match="still running"):
        lab.session.resume("w/0001")
    os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=60)
    killed = folder(lab, 1).manifest()
    assert killed.status == "running"
    assert killed.is_interrupted
    assert does(killed) == {"first": "computed"}
    assert (folder(lab, 1).path / "first.txt").read_text() == "A\n"
    (lab.root / "gate").touch()
    other = steps(a={"task": "own.list", "arguments": {"count": 1}})
    lab.run(other)  # A -> B -> A
    assert does(lab.run(tree)) == {"first": "reused", "second": "computed"}
    resumed = lab.session.resume("w/0001")
    assert resumed.run == "w/0001"
    assert does(resumed) == {"first": "reused", "second": "reused"}
    assert (lab.root / "shouts").read_text() == "shout\n"
    assert lab.calls() == 2


def test_two_processes_compute_each_step_once(lab: Lab, processes: Processes) -> None:
    both = [processes.run(slow(lab)) for _ in range(2)]
    until(lambda: started(lab, 1) and started(lab, 2) and lab.log.exists(), "two runs")
    (lab.root / "gate").touch()
    for process in both:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    assert lab.calls() == 1
    assert (lab.root / "shouts").read_text() == "shout\n"
    manifests = [folder(lab, number).manifest() for number in (1, 2)]
    assert sorted(does(manifest)["second"] for manifest in manifests) == ["computed", "reused"]
    assert [(folder(lab, n).path / "second.txt").read_text() for n in (1, 2)] == ["A\n", "A\n"]


def test_a_killed_owner_is_taken_over(lab: Lab, processes: Processes) -> None:
    first = processes.run(slow(lab))
    until(lab.log.exists, "the first run")
    second = processes.run(slow(lab))
    until(lambda: started(lab, 2), "the second run")
    first.kill()
    first.communicate(timeout=60)
    until(lambda: lab.calls() == 2, "the second run takes over", limit_s=60)
    (lab.root / "gate").touch()
    _, err = second.communicate(timeout=60)
    assert second.returncode == 0, err
    assert does(folder(lab, 2).manifest()) == {"first": "reused", "second": "computed"}


def test_an_interrupt_ends_the_wait_for_another(lab: Lab, processes: Processes) -> None:
    first = processes.run(slow(lab))
    until(lab.log.exists, "the first run")
    second = processes.run(slow(lab))
    until(lambda: started(lab, 2) and folder(lab, 2).manifest().steps, "the second run waits")
    second.send_signal(signal.SIGINT)
    _, err = second.communicate(timeout=60)
    assert second.returncode == 4, err
    assert folder(lab, 2).manifest().status == "cancelled"
    assert "cancelled" in err
    (lab.root / "gate").touch()
    first.communicate(timeout=60)
    assert first.returncode == 0


def test_a_plan_imports_no_torch_and_writes_nothing(lab: Lab, processes: Processes) -> None:
    tree = steps(base=digit(), big=resized("$step.base"))
    path = lab.root / "w.json"
    path.write_text(json.dumps(tree))
    process = processes.start("plan", str(path), "--json", code=PLAN)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert [row["status"] for row in json.loads(out)["rows"]] == ["will run", "will run"]
    assert err.strip().splitlines()[-1] == "imported"
    assert set(snapshot(lab.root)) == {"w.json"}
    lab.run(tree)
    del lab.store
    before = snapshot(lab.root)
    process = processes.start("plan", str(path), "--json", code=PLAN)
    out, err = process.communicate(timeout=120)
    assert [row["status"] for row in json.loads(out)["rows"]] == ["reused", "reused"]
    assert err.strip().splitlines()[-1] == "imported"
    assert snapshot(lab.root) == before


def test_watch_runs_again_on_save_and_tells_faults(lab: Lab, processes: Processes) -> None:
    def tree(text: str) -> dict[str, Any]:
        return steps(a={"task": "own.show", "arguments": {"value": text}})

    def finished(number: int) -> bool:
        return started(lab, number) and folder(lab, number).manifest().status == "finished"

    process = processes.run(tree("one"), "--watch")
    until(lambda: finished(1), "the first run")
    path = lab.root / "w.json"
    swap(path, "{")
    swap(path, json.dumps(tree("two")))
    until(lambda: finished(2), "the second run")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 4, err
    assert (folder(lab, 2).path / "a.txt").read_text() == "'two'\n"
    assert [Path(line).name for line in out.splitlines()] == ["a.txt", "a.txt"]


def swap(path: Path, text: str) -> None:
    """Save a file as editors do."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)
    time.sleep(0.3)
