"""Children and parents killed in each phase: the report names it, no torn cell is seen, the next lands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from restrike.mint.events import MintEvent, MintPhase, PhaseBegan, read_events
from restrike.mint.parent import Pulse, mint
from restrike.mint.report import read_report
from restrike.mint.request import Budget, MintRequest
from restrike.mint.scratch import new_scratch

from .children import Bench


@contextmanager
def killing(request: MintRequest, phase: MintPhase) -> Iterator[None]:
    """Kill the child of the first attempt as soon as it is in a phase."""

    def wait() -> None:
        while not ended.is_set():
            if is_in(request, phase):
                os.kill(child_of(request), signal.SIGKILL)
                return
            time.sleep(0.005)

    ended = threading.Event()
    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def child_of(request: MintRequest) -> int:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if str(request.file).encode() in words and b"restrike.mint.child" in words:
            return int(path.parent.name)
    raise AssertionError("the child has gone")


def wait_for(condition: Callable[[], bool], limit_s: float = 120.0) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("card", "phase"),
    [
        pytest.param("loaderdies", "load", marks=pytest.mark.slow),
        ("killedwarm", "warmup_forward"),
        pytest.param("killedtracing", "trace_graph", marks=pytest.mark.slow),
        pytest.param("killedproving", "prove", marks=pytest.mark.slow),
    ],
)
def test_a_child_that_dies_by_a_signal_leaves_a_report_with_its_phase_and_is_tried_once_more(
    bench: Bench, card: str, phase: str
) -> None:
    made = bench.mint(card)
    assert (made.report.ending.outcome, made.report.phase) == ("crashed", phase)
    assert "SIGKILL" in made.report.ending.message
    assert made.attempts == 2
    assert not bench.store.cells()
    # Each attempt left its own.
    reports = [read_report(path) for path in bench.root.glob(f"{card}-*/**/report.json")]
    assert [report.attempt for report in reports if report is not None and report.phase == phase] != []
    assert len(reports) == 2


@pytest.mark.parametrize(
    "phase",
    [
        MintPhase.COMPILE,
        pytest.param(MintPhase.SEAL, marks=pytest.mark.slow),
        pytest.param(MintPhase.PROVE, marks=pytest.mark.slow),
        pytest.param(MintPhase.PUBLISH, marks=pytest.mark.slow),
    ],
)
def test_a_child_killed_in_any_phase_leaves_a_report_that_names_it_and_the_next_attempt_lands(
    bench: Bench, phase: MintPhase
) -> None:
    request = bench.request("plain")
    with killing(request, phase):
        made = mint(request)
    first = read_report(request.report)
    assert first is not None
    assert (first.phase, first.ending.kind, first.remaining) == (phase, "Signal", ("denoiser 2x2-none",))
    assert [each.phase for each in first.phases] == list(MintPhase)[: list(MintPhase).index(phase)]
    assert (made.attempts, made.report.ending.outcome) == (2, "ok")
    # One whole cell, and nothing torn beside it.
    (cell,) = bench.store.cells()
    assert cell.refusal is None
    assert not bench.store.quarantined()


_PARENT = """
import sys
from dataclasses import replace
from pathlib import Path
from restrike.mint.parent import mint
from restrike.mint.request import read_request
from restrike.mint.scratch import new_scratch

request = read_request(Path(sys.argv[1]))
scratch = new_scratch(Path(sys.argv[2]))
print(scratch, flush=True)
mint(replace(request, scratch=str(scratch)))
"""
PAPERS = {"request.json", "events.jsonl", "report.json", "output.txt"}


@contextmanager
def parent_of(request: MintRequest, mints: Path) -> Iterator[tuple[subprocess.Popen[str], MintRequest]]:
    """A process that mints the request in scratch of its own, and the request as its child has it."""
    Path(request.scratch).mkdir()
    command = [sys.executable, "-c", _PARENT, str(request.write()), str(mints)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout is not None
            yield parent, replace(request, scratch=parent.stdout.readline().strip())
        finally:
            parent.kill()


def left_in(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "phase",
    [
        each if each is MintPhase.WARMUP_FORWARD else pytest.param(each, marks=pytest.mark.slow)
        for each in MintPhase
    ],
)
def test_a_parent_killed_in_any_phase_takes_its_child_along_and_the_next_mint_lands_and_tidies(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, phase: MintPhase
) -> None:
    monkeypatch.setenv("MINT_TEST_PAUSE", phase)
    mints = bench.root / "mints"
    with parent_of(bench.request("plain"), mints) as (parent, request):
        wait_for(lambda: is_in(request, phase))
        child = child_of(request)
        left = left_in(Path(request.scratch))
        parent.kill()
    wait_for(lambda: not Path(f"/proc/{child}").exists(), 30)
    report = read_report(request.report)
    assert report is not None
    assert (report.phase, report.ending.outcome, report.ending.kind) == (phase, "cancelled", "Orphaned")
    # A cell is whole, and there once it was published, or not there at all.
    assert [cell.refusal for cell in bench.store.cells()] == ([None] if phase is MintPhase.FINALIZE else [])
    assert "owner" in left
    monkeypatch.delenv("MINT_TEST_PAUSE")
    # Up to the warm forward, what comes after it has no part in this.
    early = phase in (MintPhase.LOAD, MintPhase.WARMUP_FORWARD)
    again = mint(bench.request("plain", scratch=str(new_scratch(mints)), keys_only=early)).report
    assert again.ending.outcome == "ok"
    assert [cell.refusal for cell in bench.store.cells()] == ([] if early else [None])
    assert left_in(Path(request.scratch)) == PAPERS


def is_in(request: MintRequest, phase: MintPhase) -> bool:
    return any(isinstance(e, PhaseBegan) and e.phase is phase for e in read_events(request.events))


@pytest.mark.slow
def test_a_child_that_sleeps_is_ended_and_one_that_works_longer_than_the_window_is_not(bench: Bench) -> None:
    made = bench.mint("sleeps", stalled_s=2.0)
    assert (made.report.ending.outcome, made.report.phase) == ("crashed", "warmup_forward")
    assert "no sign of work" in made.report.ending.message
    works = bench.mint("works", stalled_s=2.0, keys_only=True).report
    assert works.ending.outcome == "ok"


@pytest.mark.slow
def test_a_child_whose_seconds_are_spent_is_ended_and_tried_once_more_with_twice_as_many(
    bench: Bench,
) -> None:
    made = bench.mint("sleeps", budget=Budget(seconds=1.0))
    assert (made.report.ending.outcome, made.attempts) == ("shortfall", 2)


def test_leaving_with_0_and_no_artifact_is_a_crash(bench: Bench) -> None:
    made = bench.mint("leavesearly")
    assert (made.report.ending.outcome, made.report.ending.kind) == ("crashed", "NoReport")
    assert made.report.phase == "warmup_forward"


class Cancels:
    """Cancels once the model runs."""

    def __init__(self) -> None:
        self.asked = False
        self.pulses: list[Pulse] = []

    def show(self, event: MintEvent) -> None:
        self.asked = self.asked or (isinstance(event, PhaseBegan) and event.phase == "warmup_forward")

    def working(self, pulse: Pulse) -> None:
        self.pulses.append(pulse)

    def cancelled(self) -> bool:
        return self.asked


def test_a_cancelled_mint_is_neither_crashed_nor_refused_and_nothing_of_it_runs_on(bench: Bench) -> None:
    request = bench.request("sleeps")
    watcher = Cancels()
    made = mint(request, watcher)
    assert (made.report.ending.outcome, made.report.phase, made.attempts) == (
        "cancelled",
        "warmup_forward",
        1,
    )
    with pytest.raises(AssertionError, match="the child has gone"):
        child_of(request)
    # What it showed of itself meanwhile: that it ran, what it held, and work in between.
    assert max(pulse.memory_bytes for pulse in watcher.pulses) > 50 << 20
    assert [pulse.elapsed_s for pulse in watcher.pulses] == sorted(
        pulse.elapsed_s for pulse in watcher.pulses
    )
    assert 0 <= min(pulse.quiet_s for pulse in watcher.pulses) < 5
