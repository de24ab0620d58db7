"""What reuse costs: a workflow of which nothing, one step or everything changed, and its plan.

All runs are in one warm process on the embedded card `digits` and small tasks; nothing is downloaded.

    python benchmarks/reuse.py [--json] [--repeats N] [--entries N]
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from form import Bar, Figure, Report, at_most, finish, options, seconds_of
from restrike.engine.engine import Engine
from restrike.keys import Key, digest
from restrike.store.store import Store
from restrike.workflow.expansion import Machine
from restrike.workflow.runs import Manifest
from restrike.workflow.session import Asked, Session
from restrike.workflow.source import Source, read_tree
from restrike.workflow.tasks.registry import Tasks

REUSED_BAR_S = 0.100
EDIT_BAR_S = 0.050
PLAN_BAR_S = 0.200
CROWD_BAR = 1.20


def chain(length: int, last: float = 1.0) -> dict[str, Any]:
    """A generation, then tasks that each read the one before; every step saves its picture."""
    steps: dict[str, Any] = {
        "step0": {"generate": "digits", "arguments": {"prompt": "a seven"}, "result": {"save": True}}
    }
    for number in range(1, length):
        exposure = last if number == length - 1 else 0.01 * number
        steps[f"step{number}"] = {
            "task": "colour.grade",
            "arguments": {"clip": f"$step.step{number - 1}", "exposure": exposure},
            "result": {"save": True},
        }
    return {"name": "bench", "seed": 7, "steps": steps}


def session(folder: Path, engine: Engine) -> Session:
    """A session on an empty store."""
    return Session(
        workspace=folder / "workspace",
        store=Store(folder / "store"),
        machine=Machine(tasks=Tasks(), device="cpu"),
        make_engine=lambda: engine,
    )


def measure(here: Session, repeats: int, edits: list[float]) -> dict[str, list[float]]:
    """Seconds of a run that reuses all, what an edit of the last step adds beside the step, and plans."""
    found: dict[str, list[float]] = {"reused": [], "edit": [], "plan": []}
    ten, hundred = read_tree(chain(10)), read_tree(chain(100))
    here.run(ten, Asked())
    for _ in range(repeats):
        reused = seconds_of(lambda: here.run(ten, Asked()))
        took, manifest = _timed(here, read_tree(chain(10, last=edits.pop())))
        (computed,) = [step for step in manifest.steps if step.status == "computed"]
        found["reused"].append(reused)
        found["edit"].append(took - reused - computed.seconds)
        found["plan"].append(seconds_of(lambda: here.plan(hundred, Asked())))
    return found


def _timed(here: Session, source: Source) -> tuple[float, Manifest]:
    found: list[Manifest] = []
    return seconds_of(lambda: found.append(here.run(source, Asked()))), found[0]


def crowd(store: Store, entries: int) -> None:
    """Fill a store with results that nothing asks for."""
    for number in range(entries):
        key = Key("step", "1", {"number": number})
        family = digest("family", "1", number % 97)
        store.put(key, {"number": number}, seconds=1.0, label="task number", origin="bench", family=family)


def hashed_files(here: Session, folder: Path) -> int:
    """How many times a file is read to be hashed over three plans, when one file of two changes once."""
    from restrike.keys import files

    assets = folder / "workspace" / "assets"
    assets.mkdir(parents=True, exist_ok=True)
    tree = {
        "name": "pictures",
        "seed": 1,
        "steps": {
            name: {"task": "text.join", "arguments": {"parts": [f"$asset.{name}.txt"]}} for name in ("a", "b")
        },
    }
    for name in ("a", "b"):
        (assets / f"{name}.txt").write_text(name)
    # A file that was written this very moment is not remembered: it could change within the clock's tick.
    time.sleep(0.1)
    counted, real = [0], files._hashed

    def counting(*given: Any) -> Any:
        counted[0] += 1
        return real(*given)

    files._hashed = counting
    try:
        here.plan(read_tree(tree), Asked())
        here.plan(read_tree(tree), Asked())
        (assets / "a.txt").write_text("changed")
        time.sleep(0.1)
        here.plan(read_tree(tree), Asked())
        here.plan(read_tree(tree), Asked())
    finally:
        files._hashed = real
    return counted[0]


def main() -> int:
    """Measure, print, and say by the exit status whether the bars are met."""
    parser = options("What reuse costs", repeats=15)
    parser.add_argument("--entries", type=int, default=10_000, help="other results in the full store")
    asked = parser.parse_args()
    engine = Engine(device="cpu")
    edits = [1.0 + number / 1000 for number in range(1, 4 * asked.repeats + 10)]
    with TemporaryDirectory() as name:
        here = session(Path(name), engine)
        measure(here, 3, edits)
        empty = measure(here, asked.repeats, edits)
        crowd(here.store, asked.entries)
        full = measure(here, asked.repeats, edits)
        hashes = hashed_files(here, Path(name))
    return finish(_report(empty, full, hashes, asked.entries), as_json=asked.json)


def _report(empty: dict[str, list[float]], full: dict[str, list[float]], hashes: int, entries: int) -> Report:
    titles = {
        "reused": "ten steps, all reused",
        "edit": "edit of the last step, beside the step itself",
        "plan": "plan of 100 steps",
    }
    figures, bars = [], []
    limits = {"reused": REUSED_BAR_S, "edit": EDIT_BAR_S, "plan": PLAN_BAR_S}
    for key, title in titles.items():
        figures.append(Figure(name=title, unit="s", values=tuple(empty[key])))
        bars.append(at_most(figures[-1], limits[key]))
        figures.append(Figure(name=f"{title}, {entries} other results", unit="s", values=tuple(full[key])))
    for key in ("reused", "plan"):
        names = (f"{titles[key]}, {entries} other results / none",)
        quotient = figures_ratio(full[key], empty[key])
        bars.append(Bar(name=names[0], value=quotient, bar=CROWD_BAR))
    bars.append(Bar(name="hashes of two files, one changed once", value=hashes, bar=3))
    return Report(title="Reuse of step results", figures=tuple(figures), bars=tuple(bars))


def figures_ratio(value: list[float], base: list[float]) -> float:
    """The quotient of two medians."""
    from statistics import median

    return median(value) / median(base)


if __name__ == "__main__":
    raise SystemExit(main())
