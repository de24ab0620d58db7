"""The one form of all benchmarks: figures with their spread, bars that they must meet, a table or JSON.

Measures nothing itself but the time of what it is given to run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median, quantiles
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A measured quantity: one value a repeat."""

    name: str
    unit: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle value."""
        return median(self.values)

    @property
    def spread(self) -> tuple[float, float]:
        """The first and the third quartile."""
        if len(self.values) == 1:
            return self.median, self.median
        first, _, third = quantiles(self.values, n=4, method="inclusive")
        return first, third

    def as_json(self) -> dict[str, Any]:
        """Median, quartiles, unit and count."""
        low, high = self.spread
        return {
            "median": self.median,
            "low": low,
            "high": high,
            "unit": self.unit,
            "repeats": len(self.values),
        }


@dataclass(frozen=True, kw_only=True)
class Bar:
    """What a figure's median may be at most."""

    name: str
    value: float
    bar: float

    @property
    def ok(self) -> bool:
        """Whether the bar is met."""
        return self.value <= self.bar


@dataclass(frozen=True, kw_only=True)
class Report:
    """All that one benchmark found."""

    title: str
    figures: tuple[Figure, ...]
    bars: tuple[Bar, ...]

    def as_json(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        return {
            "machine": asdict(machine()),
            "figures": {figure.name: figure.as_json() for figure in self.figures},
            "bars": {bar.name: {"value": bar.value, "bar": bar.bar, "ok": bar.ok} for bar in self.bars},
        }


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Where it was measured; `load` is the run queue's length over the last minute, `cores` what there is."""

    processor: str
    cores: int
    threads: int
    load: float
    python: str
    torch: str


def machine() -> Machine:
    """This machine, now."""
    import torch

    return Machine(
        processor=platform.processor() or platform.machine(),
        cores=os.cpu_count() or 1,
        threads=torch.get_num_threads(),
        load=round(os.getloadavg()[0], 1),
        python=platform.python_version(),
        torch=str(torch.__version__),
    )


def options(description: str, repeats: int) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--repeats", type=int, default=repeats, help=f"default {repeats}")
    return parser


def seconds_of(run: Callable[[], object]) -> float:
    """How long one call takes."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def paired(runs: Sequence[Callable[[], object]], repeats: int) -> tuple[tuple[float, ...], ...]:
    """The seconds of each run in every repeat; all are run in each repeat, in an order that rotates."""
    times: list[list[float]] = [[] for _ in runs]
    for repeat in range(repeats):
        for offset in range(len(runs)):
            index = (repeat + offset) % len(runs)
            times[index].append(seconds_of(runs[index]))
    return tuple(map(tuple, times))


def ratio(name: str, value: Sequence[float], base: Sequence[float]) -> Figure:
    """The quotients of paired values."""
    return Figure(name=name, unit="x", values=tuple(v / b for v, b in zip(value, base, strict=True)))


def at_most(figure: Figure, bar: float) -> Bar:
    """The bar that a figure's median must not exceed."""
    return Bar(name=figure.name, value=figure.median, bar=bar)


def finish(report: Report, *, as_json: bool) -> int:
    """Print the report; the exit status is 1 when a bar falls short."""
    if as_json:
        print(json.dumps(report.as_json(), indent=2))
    else:
        _print(report)
    return 0 if all(bar.ok for bar in report.bars) else 1


def _print(report: Report) -> None:
    console, here = Console(width=None if sys.stdout.isatty() else 120), machine()
    console.print(
        f"{report.title}\n{here.processor}, {here.cores} cores, {here.threads} thread(s), load {here.load}, "
        f"Python {here.python}, torch {here.torch}",
        highlight=False,
    )
    figures = Table("figure", "median", "quartiles", "repeats")
    for figure in report.figures:
        low, high = (_shown(value, figure.unit) for value in figure.spread)
        figures.add_row(
            figure.name, _shown(figure.median, figure.unit), f"{low} to {high}", str(len(figure.values))
        )
    bars = Table("bar", "value", "at most", "")
    for bar in report.bars:
        bars.add_row(bar.name, f"{bar.value:.3f}", f"{bar.bar:.2f}", "met" if bar.ok else "MISSED")
    console.print(figures)
    console.print(bars)


def _shown(value: float, unit: str) -> str:
    return f"{value * 1000:.1f} ms" if unit == "s" else f"{value:.3f} {unit}"
