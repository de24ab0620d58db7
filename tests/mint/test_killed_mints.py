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
from pathlib import Path

import pytest

from restrike.mint.events import MintEvent, MintPhase, PhaseBegan, read_events
from restrike.mint.parent import Pulse, mint
from restrike.mint.report import read_report
from restrike.mint.request import Budget, MintRequest

from .children import Bench


@contextmanager
def killing(request: MintRequest, phase: MintPhase) -> Iterator[None]:
    """Kill the child of the first attempt as soon as it is in a phase."""

    def wait() -> None:
        while not ended.is_set():
            if any(isinstance(e, PhaseBegan) and e.phase is phase for e in read_events(request.events)):
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


@pytest.mark.slow
def test_the_child_goes_with_a_parent_that_is_killed_and_the_next_mint_lands(bench: Bench) -> None:
    request = bench.request("sleeps")
    script = (
        "import sys\nfrom pathlib import Path\n"
        "from restrike.mint.parent import mint\nfrom restrike.mint.request import read_request\n"
        "mint(read_request(Path(sys.argv[1])))\n"
    )
    Path(request.scratch).mkdir()
    request.write()
    parent = subprocess.Popen([sys.executable, "-c", script, str(request.file)])
    wait_for(
        lambda: any(
            isinstance(e, PhaseBegan) and e.phase == "warmup_forward" for e in read_events(request.events)
        )
    )
    child = child_of(request)
    parent.kill()
    parent.wait()
    wait_for(lambda: not Path(f"/proc/{child}").exists(), 30)
    assert not bench.store.cells()
    assert bench.mint("plain", keys_only=True).report.ending.outcome == "ok"


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
