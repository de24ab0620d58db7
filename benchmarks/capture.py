"""What captured steps gain: replays against eager on real denoisers, what a look costs, what graphs hold.

    python benchmarks/capture.py [--json] [--repeats N] [--backend tape|cuda]

On the tape no gain is asked for: a signature that does not pay is disarmed, so nothing may be slower. CUDA
graphs must make the launch-bound shape 1.5 times as fast, and no shape slower.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from form import Bar, Figure, Report, at_most, finish, options, paired, ratio
from overhead import CASES, checkpoint

os.environ["HF_HUB_OFFLINE"] = "1"
LAUNCH_BOUND, LOOKED_AT = "digits, guided", "shapes, a clip"
SLOWER_BAR, FASTER_BAR, LOOK_BAR = 1.01, 1 / 1.5, 0.01
STEPS = 12
WARM = 4


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A card at a size, and how it is guided."""

    name: str
    card: str
    asked: Mapping[str, Any]


SHAPES = (
    Shape(name=LAUNCH_BOUND, card="digits", asked={"prompt": "a seven", "guidance_mode": "batched"}),
    Shape(
        name="shapes, a still",
        card="shapes",
        asked={"prompt": "a red circle", "frames": 1, "guidance_mode": "batched"},
    ),
    Shape(
        name=LOOKED_AT,
        card="shapes",
        asked={"prompt": "a red circle moving left", "guidance_mode": "batched"},
    ),
    Shape(
        name="tiny wan, a clip",
        card="wan",
        asked={"prompt": "a red circle", "width": 32, "height": 32, "frames": 9, "guidance": 5.0},
    ),
)


def main() -> int:
    """Measure, print, and say by the exit status whether the bars are met."""
    parser = options("What captured steps gain", repeats=15)
    parser.add_argument("--backend", default="tape", choices=("tape", "cuda"))
    asked = parser.parse_args()
    figures: list[Figure] = []
    bars: list[Bar] = []
    with TemporaryDirectory() as folder:
        for shape in SHAPES:
            bench = Bench(shape, asked.backend, Path(folder))
            found, met = bench.measured(asked.repeats)
            figures += found
            bars += met
    report = Report(title=f"Captured steps, {asked.backend}", figures=tuple(figures), bars=tuple(bars))
    return finish(report, as_json=asked.json)


class Bench:
    """The steps of one shape, as the engine plans them, on an eager engine and under capture."""

    def __init__(self, shape: Shape, backend: str, folder: Path) -> None:
        from restrike.cards.request import Request, resolve
        from restrike.engine.capture.choice import choose
        from restrike.engine.engine import Engine

        self.shape = shape
        engine = Engine(device="cpu" if backend == "tape" else "cuda:0", precision="float32", capture="off")
        self.resident = engine.load(_card(shape, folder))
        request = Request(seed=7, steps=STEPS, solver="euler", **shape.asked)
        self.spec, self.arguments = resolve(self.resident.card, request)
        self.backend = choose(backend, self.resident.device).backend
        assert self.backend is not None
        self.plans = self._plans()

    def _plans(self) -> list[Any]:
        """The plans of a whole trajectory, with their own tensors."""
        import torch

        from restrike.engine.execution import execute
        from restrike.engine.extensions import ExtensionMemory
        from restrike.loops.contract import LoopContext

        resident, plans = self.resident, []
        loop = resident.loop(self.spec)
        with torch.inference_mode():
            state = loop.init(
                LoopContext(
                    arguments=self.arguments,
                    item=0,
                    device=resident.device,
                    component=resident.component,
                )
            )
            while (plan := loop.next(state)) is not None:
                plans.append(plan)
                module = resident.component(plan.component)
                loop.advance(state, execute(plan, module, ExtensionMemory(extensions=())))
        return plans

    def measured(self, repeats: int) -> tuple[list[Figure], list[Bar]]:
        """The shape's figures and bars."""
        from restrike.engine.capture.limits import CaptureLimits

        name = self.shape.name
        forced = self._capturer(CaptureLimits(min_speedup=0.0, measure_s=0.0))
        chosen = self._capturer(CaptureLimits())
        for plan in self.plans[:WARM]:
            self._step(plan, forced)
            self._step(plan, chosen)
        # By twos: a replay leaves the caches to whoever runs next as eager does not.
        eager, replayed = self._paired(forced, repeats)
        alone, kept = self._paired(chosen, repeats)
        engaged = ratio(f"as armed or not / eager, {name}", kept, alone)
        looks = self._looks()
        figures = [
            Figure(name=f"eager step, {name}", unit="s", values=eager),
            Figure(name=f"replay, {name}", unit="s", values=replayed),
            ratio(f"replay / eager, {name}", replayed, eager),
            engaged,
            Figure(name=f"look before a replay, {name}", unit="s", values=looks),
            Figure(name=f"look / eager step, {name}", unit="x", values=(median(looks) / median(eager),)),
            Figure(name=f"graph, {name}", unit="MB", values=(forced.counters.bytes / 1e6,)),
            Figure(name=f"largest difference, {name}", unit="", values=(self._difference(forced),)),
        ]
        return figures, self._bars(figures, is_armed=chosen.counters.graphs > 0)

    def _bars(self, figures: list[Figure], *, is_armed: bool) -> list[Bar]:
        _, _, replays, engaged, _, look, _, differs = figures
        on_cuda = self.backend is not None and self.backend.name == "cuda"
        bars = [at_most(differs, 0.0)]
        if is_armed or on_cuda:
            bars.append(at_most(engaged, SLOWER_BAR))
        if on_cuda and self.shape.name == LAUNCH_BOUND:
            bars.append(at_most(replays, FASTER_BAR))
        if self.shape.name == LOOKED_AT:
            bars.append(at_most(look, LOOK_BAR))
        return bars

    def _capturer(self, limits: Any) -> Any:
        from restrike.engine.capture.capturer import Capturer

        return Capturer(self.backend, limits)

    def _step(self, plan: Any, capturer: Any) -> Any:
        import torch

        module = self.resident.component(plan.component)

        def step(inputs: Any) -> Any:
            return plan.compute(lambda _, given: plan.call(module, given), inputs)

        with torch.inference_mode():
            if capturer is None:
                return step(plan.inputs)
            return capturer.run((self.shape.name, self.spec.name), plan, module, step).outputs

    def _paired(self, capturer: Any, repeats: int) -> tuple[tuple[float, ...], ...]:
        """The seconds of a step, eagerly and through the capturer, in every repeat."""
        runs = [self._timed(None), self._timed(capturer)]
        paired(runs, 2)
        return tuple(tuple(seconds / len(self.plans) for seconds in times) for times in paired(runs, repeats))

    def _timed(self, capturer: Any) -> Callable[[], None]:
        def run() -> None:
            for plan in self.plans:
                self._step(plan, capturer)
            if self.backend is not None:
                self.backend.synchronize()

        return run

    def _looks(self) -> tuple[float, ...]:
        """The seconds of steps that compute next to nothing, on the real module and with the real plan."""
        from form import seconds_of
        from restrike.engine.capture.limits import CaptureLimits

        capturer = self._capturer(CaptureLimits(min_speedup=0.0, measure_s=0.0))
        plans = [replace(plan, compute=_Idle(plan.compute)) for plan in self.plans]
        for plan in plans[:WARM]:
            self._step(plan, capturer)
        return tuple(seconds_of(lambda plan=plan: self._step(plan, capturer)) for plan in plans * 8)

    def _difference(self, capturer: Any) -> float:
        """The largest difference between eager and replay, over all steps and outputs."""
        return max(
            float((one.double() - self._step(plan, capturer)[name].double()).abs().max())
            for plan in self.plans
            for name, one in self._step(plan, None).items()
        )


@dataclass(frozen=True)
class _Idle:
    """A step that carries all that the real one does, and hands one of its inputs on."""

    inner: Any

    def __call__(self, forward: Any, inputs: Any) -> Any:
        return {"latent": inputs["latent"] + 0}


def _card(shape: Shape, folder: Path) -> Any:
    if shape.card != "wan":
        return shape.card
    from restrike.cards.checkpoint import Folder
    from restrike.models.wan.card import CARD

    checkpoint(CASES[1], folder / "euler")
    return replace(CARD, location=Folder(folder / "euler"))


if __name__ == "__main__":
    raise SystemExit(main())
