"""What a cell brings: its steps against eager ones, and a fresh process's first picture against compiling.

On the embedded models with their own weights and on a tiny random Wan, made here in a temporary folder;
nothing is downloaded. The cells are minted first, which takes minutes; `--store` keeps them for another time.

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
STEP, FIRST = "step, cell / eager", "first picture, adopting / compiling"
BARS = {STEP: 1 / 1.3, FIRST: 1 / 10}
WAYS = ("eager", "adopting", "compiling")
MOMENTS = ("imported", "first step", "picture")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A shape class of a card, and which of the bars are for it."""

    name: str
    card: str
    shape: str
    frames: int
    embedded: bool
    bars: tuple[str, ...] = ()


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
        measured = cases(root)
        for case in measured:
            minted(case, root)
            figures += steps(case, root, asked.repeats)
            figures += firsts(case, root, asked.processes)
    return finish(
        Report(title="Cells", figures=tuple(figures), bars=tuple(bars(figures, measured))), as_json=asked.json
    )


def bars(figures: list[Figure], measured: tuple[Case, ...]) -> Iterator[Bar]:
    """Those of the embedded models."""
    meant = {f"{ratio}, {case.name}": BARS[ratio] for case in measured for ratio in case.bars}
    yield from (at_most(figure, meant[figure.name]) for figure in figures if figure.name in meant)


def cases(root: Path) -> tuple[Case, ...]:
    """Stills and a clip of the embedded models, and a still of the tiny Wan.

    A picture of the digits comes almost as soon as its libraries are imported, compiled or not.
    """
    wan = root / "tiny-wan"
    if not wan.exists():
        tiny().write(wan)
    return (
        _embedded("digits", "digits", "8x8-batched", bars=(STEP,)),
        _embedded("shapes, a still", "shapes", "64x64-batched", bars=(STEP, FIRST)),
        _embedded("shapes, a clip", "shapes", "64x64x17-batched", frames=17, bars=(STEP, FIRST)),
        Case(name="tiny wan, a still", card=str(wan), shape="512x480-cfg", frames=1, embedded=False),
    )


def _embedded(name: str, card: str, shape: str, *, frames: int = 1, bars: tuple[str, ...]) -> Case:
    return Case(name=name, card=card, shape=shape, frames=frames, embedded=True, bars=bars)


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
    prompt = "a seven" if case.card == "digits" else "a red circle"
    return Request(prompt=prompt, seed=0, frames=case.frames, steps=steps, width=width, height=height)


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
        ratio(f"{STEP}, {case.name}", cell, plain),
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
        ratio(f"{FIRST}, {case.name}", picture["adopting"], picture["compiling"]),
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
    from restrike.cards import registry
    from restrike.engine.events import StepFinished

    engine = engine_with(root if way == "adopting" else None)
    moments = {"imported": since_start()}
    card = registry.find(case.card)
    if way == "compiling":
        compile_here(engine, card, case)
    for event in engine.stream(card, request_of(case, steps=4)):
        if isinstance(event, StepFinished):
            moments.setdefault("first step", since_start())
    moments["picture"] = since_start()
    print(json.dumps(moments))
    return 0


def compile_here(engine: Engine, card: ModelCard, case: Case) -> None:
    """Put the denoiser's call under torch.compile, which compiles at the first step."""
    import torch

    if not case.embedded:  # which is called by its parts
        from restrike.models.wan import model

        model.velocity = torch.compile(model.velocity, dynamic=False)
        return
    resident = engine.load(card)
    with resident.turn:
        module = resident.component("transformer")
    assert isinstance(module, torch.nn.Module)
    module.compile(dynamic=False)


def since_start() -> float:
    """Seconds since this process was started."""
    return time.time() - float(os.environ["BENCH_BEGAN"])


if __name__ == "__main__":
    sys.exit(main())
