"""Workers of a database: registered, heard, and counted on only while they are heard."""

from __future__ import annotations

from restrike.engine.capture.counters import CaptureCounters
from restrike.engine.compiled.counters import CompiledCounters
from restrike.engine.counts import CardCounters
from restrike.server.database.connect import Database
from restrike.server.workers import BUSY, LIVE_S, Report, WorkerRow, Workers


def test_a_worker_is_what_it_said_last(database: Database) -> None:
    now = [100.0]
    workers = Workers(database, clock=lambda: now[0])
    row = WorkerRow(id="w", device="cpu:0", owner="h 1 2 t", server="h 3 4 t", memory_bytes=5)
    workers.register(row)
    cells = CompiledCounters(armed=1, executed=5, eager={"autocast is on": 2}, refused={"no room": 1})
    captures = CaptureCounters(
        captures=2, replays=9, eager_breaks={"warming": 2}, graphs=1, armed=1, bytes=64
    )
    report = Report(
        job="job-1",
        attempt=2,
        resident=("a", "b"),
        armed=("a",),
        rss_bytes=7,
        step_s=0.5,
        cards=(CardCounters(card="digits", cells=cells, captures=captures),),
    )
    now[0] = 101.0

    workers.beat(WorkerRow(**{**vars(row), "state": BUSY, "report": report}))

    (found,) = workers.all()
    assert found == WorkerRow(**{**vars(row), "state": BUSY, "report": report, "heartbeat": 101.0})
    assert found.facts.resident == ("a", "b")
    assert found.facts.armed == ("a",)


def test_only_those_that_were_heard_lately_are_counted_on(database: Database) -> None:
    now = [100.0]
    workers = Workers(database, clock=lambda: now[0])
    for name in ("a", "b"):
        workers.register(WorkerRow(id=name, device="cpu:0", owner="o", server="s", memory_bytes=1))
    now[0] += LIVE_S + 1

    workers.beat(workers.all()[1])

    assert [row.id for row in workers.live()] == ["b"]
    workers.leave("b")
    assert [row.id for row in workers.all()] == ["a"]


def test_one_that_was_given_up_for_its_silence_is_known_again_when_it_is_heard(database: Database) -> None:
    workers = Workers(database, clock=lambda: 100.0)
    row = WorkerRow(id="w", device="cpu:0", owner="o", server="s", memory_bytes=1, host_bytes=7)
    workers.register(row)
    workers.leave("w")

    workers.beat(row)

    assert [(each.id, each.host_bytes, each.heartbeat) for each in workers.live()] == [("w", 7, 100.0)]
