"""What Prometheus reads of cells and captures, by device and card. It counts and changes nothing.

A worker counts from its start: a counter that fell was of the worker before, which is what Prometheus
expects of a restart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from restrike.engine.capture.counters import kinds
from restrike.engine.counts import CardCounters
from restrike.server.workers import WorkerRow

_PLACE = ("device", "card")
_REASON = (*_PLACE, "reason")


Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class _Counted(Generic[Value]):
    """One family: what it is called, and what it reads of a card."""

    name: str
    help: str
    of: Callable[[CardCounters], Value]


_HELD: tuple[_Counted[int], ...] = (
    _Counted(
        name="restrike_cells_armed",
        help="Cells that answer forwards now",
        of=lambda card: card.cells.armed,
    ),
    _Counted(
        name="restrike_capture_graphs_armed",
        help="Graphs that answer steps now",
        of=lambda card: card.captures.armed,
    ),
    _Counted(
        name="restrike_capture_bytes",
        help="Memory that graphs hold, proved or not",
        of=lambda card: card.captures.bytes,
    ),
)
_COUNTED: tuple[_Counted[int], ...] = (
    _Counted(
        name="restrike_cells_executed",
        help="Forwards of requests that cells answered",
        of=lambda card: card.cells.executed,
    ),
    _Counted(
        name="restrike_captures",
        help="Graphs that were made",
        of=lambda card: card.captures.captures,
    ),
    _Counted(
        name="restrike_capture_replays",
        help="Steps that graphs answered",
        of=lambda card: card.captures.replays,
    ),
)
_BY_REASON: tuple[_Counted[Mapping[str, int]], ...] = (
    _Counted(
        name="restrike_cells_eager",
        help="Forwards of requests that no cell answered",
        of=lambda card: card.cells.eager,
    ),
    _Counted(
        name="restrike_cells_refused",
        help="Cells that were not armed, or are no more",
        of=lambda card: card.cells.refused,
    ),
    _Counted(
        name="restrike_capture_breaks",
        help="Steps that no graph answered",
        of=lambda card: kinds(card.captures.eager_breaks),
    ),
    _Counted(
        name="restrike_capture_evictions",
        help="Graphs that were let go",
        of=lambda card: card.captures.evictions,
    ),
)


Cards = list[tuple[str, CardCounters]]
"""The counters of cards, each with its device."""


def card_metrics(workers: Iterable[WorkerRow], shown: Callable[[str], str]) -> Iterator[Metric]:
    """The families of all cards; `shown` takes out of a label what nobody may see.

    Two workers of one device, which two servers on one database may have, are one series.
    """
    cards = [
        (worker.device, replace(card, card=shown(card.card)))
        for worker in workers
        for card in worker.report.cards
    ]
    for number in _HELD:
        family = GaugeMetricFamily(number.name, number.help, labels=_PLACE)
        yield _filled(family, _numbers(number, cards))
    for number in _COUNTED:
        family = CounterMetricFamily(number.name, number.help, labels=_PLACE)
        yield _filled(family, _numbers(number, cards))
    for reasons in _BY_REASON:
        family = CounterMetricFamily(reasons.name, reasons.help, labels=_REASON)
        yield _filled(family, _reasons(reasons, cards, shown))


def _numbers(number: _Counted[int], cards: Cards) -> Counter[tuple[str, ...]]:
    found: Counter[tuple[str, ...]] = Counter()
    for device, card in cards:
        found[device, card.card] += number.of(card)
    return found


def _reasons(
    reasons: _Counted[Mapping[str, int]], cards: Cards, shown: Callable[[str], str]
) -> Counter[tuple[str, ...]]:
    found: Counter[tuple[str, ...]] = Counter()
    for device, card in cards:
        for reason, count in reasons.of(card).items():
            found[device, card.card, shown(reason)] += count
    return found


def _filled(
    family: GaugeMetricFamily | CounterMetricFamily, found: Mapping[tuple[str, ...], int]
) -> GaugeMetricFamily | CounterMetricFamily:
    for labels, value in found.items():
        family.add_metric(labels, value)
    return family
