"""What a cell brings: its steps against eager ones, and a fresh process's first picture against compiling.

On `shapes` with its own weights and on a tiny random Wan, made here in a temporary folder; nothing is
downloaded. The cells are minted first, which takes minutes; `--store` keeps them for the next time.

    python benchmarks/cells.py [--json] [--repeats N] [--processes N] [--threads N] [--store FOLDER]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from form import Bar, Figure, Report, at_most, finish, options, ratio

if TYPE_CHECKING:
    from restrike.cards.card import ModelCard
    from restrike.cards.request import Request
    from restrike.engine.engine import Engine

TINY = Path(__file__).parents[1] / "tests/models/wan/tiny.py"
STEP_BAR, FIRST_BAR = 1 / 1.3, 1 / 10
WAYS = ("eager", "adopting", "compiling")
MOMENTS = ("imported", "first step", "picture")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A shape class of a card; the embedded model is what the bars are for."""

    name: str
    card: str
    shape: str
    frames: int
    embedded: bool


def main() -> int:
    """Measure, print, and say by the exit status whether the bars are met."""
    parser = options("What a cell brings", repeats=3)
    parser.add_argument("--processes", type=int, default=3, help="fresh processes of each kind, 0: none")
    parser.add_argument("--threads", type=int, default=1, help="torch threads, default 1")
    parser.add_argument("--store", type=Path, help="keep the cells in this folder")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    # Before torch is imported, which reads it once.
    os.environ["OMP_NUM_THREADS"] = str(asked.threads)
    os.environ["HF_HUB_OFFLINE"] = "1"
    if asked.child:
        return first_picture(*asked.child)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="restrike-bench-") as folder:
        root = asked.store or Path(folder)
        for case in cases(root):
            minted(case, root)
            figures += steps(case, root, asked.repeats)
            figures += firsts(case, root, asked.processes)
    return finish(
        Report(title="Cells", figures=tuple(figures), bars=tuple(bars(figures))), as_json=asked.json
    )


def bars(figures: list[Figure]) -> Iterator[Bar]:
    """Those of the embedded model."""
    for figure in figures:
        if figure.name.startswith("step, cell / eager, shapes"):
            yield at_most(figure, STEP_BAR)
        if figure.name.startswith("first picture, adopting / compiling, shapes"):
            yield at_most(figure, FIRST_BAR)


def cases(root: Path) -> tuple[Case, ...]:
    """A clip and a still of the embedded model, and a still of the tiny Wan."""
    wan = root / "tiny-wan"
    if not wan.exists():
        tiny().write(wan)
    return (
        Case(name="shapes, a clip", card="shapes", shape="64x64x17-batched", frames=17, embedded=True),
        Case(name="shapes, a still", card="shapes", shape="64x64-batched", frames=1, embedded=True),
        Case(name="tiny wan, a still", card=str(wan), shape="512x480-cfg", frames=1, embedded=False),
    )


def tiny() -> Any:
    """The writer of tiny checkpoints that the tests use."""
    spec = importlib.util.spec_from_file_location("tiny_wan", TINY)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["tiny_wan"] = module
    spec.loader.exec_module(module)
    return module


def minted(case: Case, root: Path) -> None:
    """See that the cell is in the store; compiles it when it is not."""
    from restrike.cards import registry
    from restrike.mint.cell.host import cpu_target
    from restrike.mint.parent import mint
    from restrike.mint.request import MintRequest, slot_of
    from restrike.mint.scratch import new_scratch

    request = MintRequest(
        slot=slot_of(registry.find(case.card)),
        recipe="aot",
        target=cpu_target(),
        store=str(root / "cells"),
        scratch=str(new_scratch(root / "mints")),
        precision="float32",
        shapes=(case.shape,),
    )
    ending = mint(request).report.ending
    assert ending.outcome == "ok", ending.message


def engine_with(root: Path | None) -> Engine:
    """An engine with the cells of a store, or one without any."""
    from restrike.engine.engine import Engine
    from restrike.mint.adoption.cells import Cells
    from restrike.mint.store.store import CellStore

    cells = None if root is None else Cells(CellStore(root / "cells"), asked=True)
    return Engine(device="cpu", precision="float32", capture="off", cells=cells)


def request_of(case: Case, steps: int | None = None) -> Request:
    """The request of the case's shape class."""
    from restrike.cards.request import Request

    width, height = (None, None) if case.embedded else (512, 480)
    return Request(prompt="a red circle", seed=0, frames=case.frames, steps=steps, width=width, height=height)


def steps(case: Case, root: Path, repeats: int) -> list[Figure]:
    """Each step eagerly and by the cell, in turn."""
    from restrike.cards import registry

    eager, compiled, card = engine_with(None), engine_with(root), registry.find(case.card)
    request = request_of(case, steps=6)
    made = compiled.generate(card, request)
    assert made.compiled.executed, compiled.load(card).compiled.explain()
    assert not made.compiled.eager, made.compiled
    times: list[tuple[float, float]] = []
    for _ in range(repeats):
        plain, cell = (steps_of(engine, card, request) for engine in (eager, compiled))
        times += zip(plain, cell, strict=True)
    plain, cell = zip(*times, strict=True)
    return [
        Figure(name=f"step, eager, {case.name}", unit="s", values=plain),
        Figure(name=f"step, cell, {case.name}", unit="s", values=cell),
        ratio(f"step, cell / eager, {case.name}", cell, plain),
    ]


def steps_of(engine: Engine, card: ModelCard, request: Request) -> Iterator[float]:
    """The seconds of each step of a request, advanced as they are asked for."""
    from restrike.engine.events import StepFinished

    for event in engine.stream(card, request):
        if isinstance(event, StepFinished):
            yield event.seconds


def firsts(case: Case, root: Path, processes: int) -> list[Figure]:
    """What a fresh process takes from its start to its first picture, in each way, in turn."""
    if not processes:
        return []
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for _ in range(processes):
        for way in WAYS:
            found[way].append(in_fresh_process(case, root, way))
    figures = [
        Figure(
            name=f"{moment} after the start, {way}, {case.name}",
            unit="s",
            values=tuple(times[moment] for times in found[way]),
        )
        for way in WAYS
        for moment in MOMENTS
    ]
    picture = {way: [times["picture"] for times in found[way]] for way in WAYS}
    ready = {way: [times["first step"] - times["imported"] for times in found[way]] for way in WAYS}
    return [
        *figures,
        ratio(f"first picture, adopting / compiling, {case.name}", picture["adopting"], picture["compiling"]),
        ratio(f"first picture, adopting / eager, {case.name}", picture["adopting"], picture["eager"]),
        ratio(
            f"first step after imports, adopting / compiling, {case.name}",
            ready["adopting"],
            ready["compiling"],
        ),
    ]


def in_fresh_process(case: Case, root: Path, way: str) -> dict[str, float]:
    """The moments of one process, in seconds from its start, with a compiler's cache of its own."""
    with tempfile.TemporaryDirectory(prefix="restrike-cache-") as cache:
        environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": cache, "BENCH_BEGAN": str(time.time())}
        command = [sys.executable, __file__, "--store", str(root), "--child", way, case.name]
        command += ["--threads", os.environ["OMP_NUM_THREADS"]]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def first_picture(way: str, name: str) -> int:
    """In the fresh process: make one picture, and print when it came how far."""
    root = Path(sys.argv[sys.argv.index("--store") + 1])
    case = next(case for case in cases(root) if case.name == name)
    import torch

    from restrike.cards import registry
    from restrike.engine.events import StepFinished

    engine = engine_with(root if way == "adopting" else None)
    moments = {"imported": since_start()}
    card = registry.find(case.card)
    if way == "compiling":
        resident = engine.load(card)
        with resident.turn:
            module = resident.component("transformer")
        assert isinstance(module, torch.nn.Module)
        module.compile(dynamic=False)
    for event in engine.stream(card, request_of(case, steps=4)):
        if isinstance(event, StepFinished):
            moments.setdefault("first step", since_start())
    moments["picture"] = since_start()
    print(json.dumps(moments))
    return 0


def since_start() -> float:
    """Seconds since this process was started."""
    return time.time() - float(os.environ["BENCH_BEGAN"])


if __name__ == "__main__":
    sys.exit(main())
