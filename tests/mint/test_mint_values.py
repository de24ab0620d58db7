"""The parts of a mint that are values and decisions: events, reports, classification, requests, budgets."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from restrike.errors import Crashed, NotFound, Refused, Shortfall
from restrike.mint.cell.host import cpu_target
from restrike.mint.classify import Stop, classify
from restrike.mint.events import (
    EntryFailed,
    EntryLanded,
    EventLog,
    Keyed,
    MintPhase,
    PhaseBegan,
    PhaseEnded,
    Planned,
    read_events,
)
from restrike.mint.outcome import Outcome, error_of, outcome_of
from restrike.mint.report import Ending, MintReport, read_report, report_of
from restrike.mint.request import Budget, MintRequest, Slot, read_request
from restrike.mint.shortfalls import placed

OK = Ending(outcome=Outcome.OK)
REFUSED = Ending(outcome=Outcome.REFUSED, kind="NothingDeclared", message="no")


@pytest.fixture
def request_of(tmp_path: Path) -> MintRequest:
    return MintRequest(
        slot=Slot(ref="digits"),
        recipe="aot",
        target=cpu_target(),
        store=str(tmp_path / "cells"),
        scratch=str(tmp_path),
    )


# Events.


def test_events_are_read_back_in_order_while_they_are_still_written(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl", wall=lambda: 5.0, clock=iter([1.0, 3.5]).__next__)
    with log.during(MintPhase.COMPILE, "a"):
        assert read_events(log.path) == (PhaseBegan(phase=MintPhase.COMPILE, at=5.0, entry="a"),)
    log.add(EntryLanded(entry="a", key="1", how="published"))
    began, ended, landed = read_events(log.path)
    assert isinstance(ended, PhaseEnded)
    assert (ended.seconds, ended.entry, ended.peak_bytes > 0) == (2.5, "a", True)
    assert isinstance(landed, EntryLanded)
    assert began != ended


def test_a_line_that_was_not_written_whole_is_no_event(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    log.add(Planned(entries=("a",)))
    with log.path.open("ab") as file:
        file.write(b'{"phase": "comp')
    assert read_events(log.path) == (Planned(entries=("a",)),)
    assert read_events(tmp_path / "none") == ()


def test_a_phase_that_raises_has_no_end(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    with pytest.raises(ValueError, match="no"), log.during(MintPhase.PROVE):
        raise ValueError("no")
    assert [type(event) for event in read_events(log.path)] == [PhaseBegan]
    assert log.phase is MintPhase.PROVE


# Reports.


def events_of_a_death() -> list[object]:
    return [
        PhaseBegan(phase=MintPhase.LOAD, at=0),
        PhaseEnded(phase=MintPhase.LOAD, seconds=1, peak_bytes=7),
        Planned(entries=("a", "b", "c", "d")),
        Keyed(entry="a", key="1"),
        EntryLanded(entry="a", key="1", how="published"),
        PhaseBegan(phase=MintPhase.TRACE_GRAPH, at=1, entry="b"),
        EntryFailed(entry="b", phase=MintPhase.TRACE_GRAPH, outcome="refused", kind="X", message="no"),
        PhaseBegan(phase=MintPhase.COMPILE, at=2, entry="c"),
    ]


def test_the_report_of_a_killed_child_names_the_phase_and_what_landed_failed_and_remains(
    request_of: MintRequest, tmp_path: Path
) -> None:
    report = report_of(request_of, events_of_a_death(), REFUSED, 9.0)  # pyright: ignore[reportArgumentType]
    assert report.phase is MintPhase.COMPILE
    assert [landed.entry for landed in report.landed] == ["a"]
    assert [failed.entry for failed in report.failed] == ["b"]
    assert report.remaining == ("c", "d")
    assert (report.seconds, report.peak_bytes) == (9.0, 7)
    report.write(tmp_path / "report.json")
    assert read_report(tmp_path / "report.json") == report


def test_a_phase_whose_entry_failed_is_not_the_one_of_a_death(request_of: MintRequest) -> None:
    events = events_of_a_death()[:-1]
    assert report_of(request_of, events, OK, 1.0).phase is None  # pyright: ignore[reportArgumentType]


def test_a_torn_report_is_none(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text('{"card": ')
    assert read_report(tmp_path / "report.json") is None


# Classification.


def report_with(ending: Ending, request: MintRequest) -> MintReport:
    return report_of(request, (), ending, 1.0)


def ending(outcome: Outcome) -> Ending:
    return Ending(outcome=outcome, kind="X", message="why")


@pytest.mark.parametrize(
    ("outcome", "code", "attempts"),
    [
        (Outcome.OK, 0, 1),
        (Outcome.CRASHED, 1, 1),
        (Outcome.REFUSED, 2, 1),
        (Outcome.SHORTFALL, 3, 2),
        (Outcome.CANCELLED, 4, 1),
    ],
)
def test_what_a_child_reports_is_believed_when_its_exit_code_says_the_same(
    request_of: MintRequest, outcome: Outcome, code: int, attempts: int
) -> None:
    assert outcome.exit_code == code
    report = report_with(ending(outcome), request_of)
    verdict = classify(code, report, verified=True, stop=None)
    assert (verdict.ending, verdict.attempts) == (report.ending, attempts)


@pytest.mark.parametrize("code", range(5))
def test_an_ending_without_a_report_is_a_crash_whatever_the_code(code: int) -> None:
    verdict = classify(code, None, verified=True, stop=None)
    assert (verdict.ending.outcome, verdict.ending.kind) == (Outcome.CRASHED, "NoReport")


def test_0_without_a_verified_artifact_is_a_crash(request_of: MintRequest) -> None:
    verdict = classify(0, report_with(OK, request_of), verified=False, stop=None)
    assert (verdict.ending.outcome, verdict.ending.kind) == (Outcome.CRASHED, "NoArtifact")


def test_a_report_that_contradicts_the_exit_code_is_a_crash(request_of: MintRequest) -> None:
    verdict = classify(0, report_with(REFUSED, request_of), verified=True, stop=None)
    assert (verdict.ending.outcome, verdict.ending.kind) == (Outcome.CRASHED, "Contradiction")


def test_a_signal_is_a_crash_that_is_tried_once_more(request_of: MintRequest) -> None:
    verdict = classify(-11, report_with(OK, request_of), verified=True, stop=None)
    assert (verdict.ending.outcome, verdict.attempts) == (Outcome.CRASHED, 2)
    assert "SIGSEGV" in verdict.ending.message
    assert "signal 99" in classify(-99, None, verified=True, stop=None).ending.message


@pytest.mark.parametrize(
    ("stop", "outcome", "attempts"),
    [
        (Stop.CANCELLED, Outcome.CANCELLED, 1),
        (Stop.SECONDS, Outcome.SHORTFALL, 2),
        (Stop.MEMORY, Outcome.SHORTFALL, 2),
        (Stop.STALLED, Outcome.CRASHED, 1),
    ],
)
def test_what_the_parent_ended_has_its_reason_and_not_the_signals(
    stop: Stop, outcome: Outcome, attempts: int
) -> None:
    verdict = classify(-9, None, verified=False, stop=stop)
    assert (verdict.ending.outcome, verdict.attempts) == (outcome, attempts)


def test_an_outcome_and_its_error_are_each_others_inverse() -> None:
    for outcome in set(Outcome) - {Outcome.OK}:
        assert outcome_of(error_of(outcome, "why")) is outcome


# Shortfalls.


def test_memory_that_ran_out_below_keeps_its_class_whatever_wrapped_it() -> None:
    wrapped = ValueError("the forward failed")
    wrapped.__cause__ = RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")
    assert isinstance(placed(wrapped), Shortfall)
    assert isinstance(placed(MemoryError("no")), Shortfall)
    assert isinstance(placed(RuntimeError("cc1plus: out of memory allocating 8 bytes")), Shortfall)
    for said in (
        "g++: error while loading shared libraries: libc.so.6: failed to map segment from shared object",
        "g++: fatal error: Killed signal terminated program cc1plus",
        "virtual memory exhausted: Cannot allocate memory",
    ):
        assert isinstance(placed(RuntimeError(said)), Shortfall)
    assert isinstance(placed(RuntimeError("g++: fatal error: no input files")), Crashed)
    assert isinstance(placed(ValueError("no")), Crashed)


# Requests.


def test_a_request_is_read_as_it_was_written(request_of: MintRequest) -> None:
    asked = replace(request_of, shapes=("a",), budget=Budget(seconds=2, memory_bytes=3), sign="x")
    assert read_request(asked.write()) == asked


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"slot": {"path": "/models/x"}}, "slot.ref"),
        ({"slot": {"ref": " ", "path": "/models/x"}}, "without a ref"),
        ({"recipe": "tvm"}, "recipe"),
        ({"colour": "red"}, "colour"),
        ({"budget": {"seconds": -1}}, "above 0"),
    ],
)
def test_a_request_that_says_anything_else_or_too_little_is_refused(
    request_of: MintRequest, change: dict[str, object], words: str
) -> None:
    file = request_of.write()
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(Refused, match=words):
        read_request(file)


def test_a_request_that_is_not_there_or_torn_is_refused(request_of: MintRequest, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        read_request(tmp_path / "none.json")
    file = request_of.write()
    file.write_text(file.read_text()[:50])
    with pytest.raises(Refused, match="is no mint request"):
        read_request(file)


def test_a_folder_that_is_another_models_is_refused() -> None:
    with pytest.raises(Refused):
        Slot(ref="wan", path="/nowhere/at/all").card()


def test_a_larger_budget_is_twice_as_much_by_fewer_threads() -> None:
    assert Budget(seconds=2, memory_bytes=8, threads=4).larger() == Budget(seconds=4, memory_bytes=16)
    assert Budget(threads=4).larger() == Budget()
