"""What cells and captures did: for a card since it was loaded, and for one generation. Counts only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from restrike.engine.capture.counters import CaptureCounters, CaptureReport
from restrike.engine.compiled.counters import CompiledCounters, CompiledReport
from restrike.engine.reasons import added, brief


@dataclass(frozen=True, kw_only=True)
class CardCounters:
    """The counters of one card."""

    card: str
    cells: CompiledCounters = field(default_factory=CompiledCounters)
    captures: CaptureCounters = field(default_factory=CaptureCounters)

    def brief(self, most: int) -> CardCounters:
        """The same with at most so many reasons of each kind, and one for the others."""
        return replace(
            self,
            cells=replace(
                self.cells, eager=brief(self.cells.eager, most), refused=brief(self.cells.refused, most)
            ),
            captures=replace(
                self.captures,
                eager_breaks=brief(self.captures.eager_breaks, most),
                evictions=brief(self.captures.evictions, most),
            ),
        )


@dataclass(frozen=True, kw_only=True)
class Executed:
    """How one generation was executed: its steps, and the forwards in them."""

    capture: CaptureReport
    compiled: CompiledReport

    @property
    def told(self) -> tuple[str, ...]:
        """A line each for people; none of what was off or had nothing to answer."""
        forwards = bool(self.compiled.cells or self.compiled.eager)
        steps = bool(self.capture.replays or self.capture.eager_breaks)
        return (
            *((self.compiled.told(self.compiled.eager),) if forwards else ()),
            *((self.capture.told,) if steps else ()),
        )


def together(every: Sequence[Executed]) -> Executed | None:
    """Several generations as one; None for none."""
    if not every:
        return None
    captures, compiled = [each.capture for each in every], [each.compiled for each in every]
    return Executed(
        capture=replace(
            captures[-1],
            replays=sum(each.replays for each in captures),
            eager_breaks=added(each.eager_breaks for each in captures),
        ),
        compiled=CompiledReport(
            cells=added(each.cells for each in compiled), eager=added(each.eager for each in compiled)
        ),
    )


def executed_of(tree: Mapping[str, Any]) -> Executed:
    """An `Executed` from what `asdict` makes of it."""
    return Executed(capture=CaptureReport(**tree["capture"]), compiled=CompiledReport(**tree["compiled"]))


def counters_of(tree: Mapping[str, Any]) -> CardCounters:
    """A card's counters from what `asdict` makes of them."""
    return CardCounters(
        card=tree["card"],
        cells=CompiledCounters(**tree["cells"]),
        captures=CaptureCounters(**tree["captures"]),
    )


def by_card(every: Iterable[CardCounters]) -> tuple[CardCounters, ...]:
    """One for each name of a card: several checkpoints may go by one."""
    ordered = sorted(every, key=lambda each: each.card)
    return tuple(_one(card, list(own)) for card, own in groupby(ordered, key=lambda each: each.card))


def _one(card: str, every: list[CardCounters]) -> CardCounters:
    cells, captures = [each.cells for each in every], [each.captures for each in every]
    return CardCounters(
        card=card,
        cells=CompiledCounters(
            armed=sum(each.armed for each in cells),
            executed=sum(each.executed for each in cells),
            eager=added(each.eager for each in cells),
            refused=added(each.refused for each in cells),
        ),
        captures=CaptureCounters(
            captures=sum(each.captures for each in captures),
            replays=sum(each.replays for each in captures),
            eager_breaks=added(each.eager_breaks for each in captures),
            evictions=added(each.evictions for each in captures),
            graphs=sum(each.graphs for each in captures),
            armed=sum(each.armed for each in captures),
            bytes=sum(each.bytes for each in captures),
        ),
    )
