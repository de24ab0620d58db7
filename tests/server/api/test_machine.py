"""What is told of cells and captures: over REST and to Prometheus, by device and card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from restrike.engine.capture.counters import CaptureCounters
from restrike.engine.compiled.counters import CompiledCounters
from restrike.engine.counts import CardCounters
from restrike.server.service import Service
from restrike.server.workers import Report, WorkerRow
from restrike.store.owner import Owner

GAP = "axis 3 of 'latent' is 12, compiled for 8"
BREAKS = {"warming": 1, "blocked: it reads 1.5": 3, "blocked: it reads 2.5": 4}


def counted(executed: int, **captures: Any) -> CardCounters:
    """Counters of a card that did so much."""
    cells = CompiledCounters(armed=2, executed=executed, eager={GAP: 3}, refused={"no room": 1})
    return CardCounters(card="digits", cells=cells, captures=CaptureCounters(**captures))


def working(service: Service, name: str, device: str, *cards: CardCounters) -> None:
    """Register a worker with these counters."""
    owner = str(Owner.here())
    service.workers.register(
        WorkerRow(
            id=name, device=device, owner=owner, server=owner, memory_bytes=1, report=Report(cards=cards)
        )
    )


def samples(client: TestClient) -> Mapping[tuple[str, ...], float]:
    """What Prometheus reads of cards: name, device, card, reason."""
    found: dict[tuple[str, ...], float] = {}
    for family in text_string_to_metric_families(client.get("/metrics").text):
        for sample in family.samples:
            if sample.name.startswith("restrike_c"):
                given = (sample.labels.get(label) for label in ("device", "card", "reason"))
                labels = (sample.name, *(value for value in given if value is not None))
                assert labels not in found
                found[labels] = sample.value
    return found


def test_prometheus_reads_cells_and_captures(client: TestClient, service: Service) -> None:
    captures = {"captures": 3, "replays": 40, "eager_breaks": BREAKS, "armed": 1, "graphs": 2, "bytes": 64}
    working(service, "w", "cuda:0", counted(7, **captures, evictions={"over budget": 2}))
    place = ("cuda:0", "digits")
    assert samples(client) == {
        ("restrike_cells_armed", *place): 2,
        ("restrike_cells_executed_total", *place): 7,
        ("restrike_cells_eager_total", *place, GAP): 3,
        ("restrike_cells_refused_total", *place, "no room"): 1,
        ("restrike_capture_graphs_armed", *place): 1,
        ("restrike_capture_bytes", *place): 64,
        ("restrike_captures_total", *place): 3,
        ("restrike_capture_replays_total", *place): 40,
        ("restrike_capture_breaks_total", *place, "warming"): 1,
        # Their details quote values: each would be a series of its own.
        ("restrike_capture_breaks_total", *place, "blocked"): 7,
        ("restrike_capture_evictions_total", *place, "over budget"): 2,
    }


def test_a_worker_that_follows_another_counts_from_nothing_and_two_of_a_device_are_one_series(
    client: TestClient, service: Service
) -> None:
    executed = ("restrike_cells_executed_total", "cuda:0", "digits")
    working(service, "first", "cuda:0", counted(100))
    assert samples(client)[executed] == 100
    service.workers.leave("first")
    assert executed not in samples(client)
    working(service, "second", "cuda:0", counted(2))
    assert samples(client)[executed] == 2
    working(service, "of another server", "cuda:0", counted(5))
    working(service, "apart", "cuda:1", counted(9))
    found = samples(client)
    assert found[executed] == 7
    assert found["restrike_cells_executed_total", "cuda:1", "digits"] == 9
    assert 'restrike_workers{device="cuda:0",state="idle"} 2.0' in client.get("/metrics").text


def test_a_reason_tells_nobody_where_the_server_keeps_its_things(
    client: TestClient, service: Service
) -> None:
    path = f"{service.place.folder}/cells/x.so"
    cells = CompiledCounters(eager={f"it failed (OSError: {path})": 1})
    working(service, "w", "cpu:0", CardCounters(card="digits", cells=cells))
    for where in ("/metrics", "/api/cells"):
        text = client.get(where).text
        assert "it failed (OSError: data/cells/x.so)" in text
        assert str(service.place.folder) not in text


def test_the_interface_tells_them_whole(client: TestClient, service: Service) -> None:
    working(service, "w", "cpu:1", counted(7, replays=40, eager_breaks=BREAKS, armed=1, graphs=2, bytes=64))
    (used,) = client.get("/api/cells").json()["use"]
    assert (used["device"], used["card"], used["armed"], used["executed"]) == ("cpu:1", "digits", 2, 7)
    assert (used["eager"], used["refused"]) == ({GAP: 3}, {"no room": 1})
    (captured,) = client.get("/api/captures").json()["captures"]
    assert (captured["device"], captured["card"], captured["worker"]) == ("cpu:1", "digits", "w")
    assert (captured["armed"], captured["graphs"], captured["replays"]) == (1, 2, 40)
    assert (captured["eager_breaks"], captured["bytes"], captured["evictions"]) == (BREAKS, 64, {})
