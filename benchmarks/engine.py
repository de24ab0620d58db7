"""What scheduling brings and costs: batches against one by one, an armed tape against eager, overhead a step.

Both of a pair run in one process, in turn, on `shapes` with its own weights; two threads by default.

    python benchmarks/engine.py [--json] [--repeats N] [--threads N] [--steps N]
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from form import Figure, Report, at_most, finish, options, paired, ratio

if TYPE_CHECKING:
    from restrike.cards.card import ModelCard
    from restrike.cards.request import Request
    from restrike.engine.engine import Engine
    from restrike.loops.contract import LoopContext, LoopOutput, StepPlan, Tensors

PROMPTS = (
    "a red circle moving left",
    "a blue square moving right",
    "a green triangle moving up",
    "a yellow circle moving down",
    "a red square moving right",
    "a blue circle moving up",
    "a green square moving left",
    "a yellow triangle moving right",
)
FORMS = {"clips": None, "stills": 1}
"""Frames of each; None is the card's default."""
BATCHED_BAR = 1 / 1.5
TAPE_BAR = 1.01
OVERHEAD_BAR = 0.01
BARS = {"batched / one by one": BATCHED_BAR, "tape / eager": TAPE_BAR, "overhead / step": OVERHEAD_BAR}
"""By the beginning of a figure's name."""


def main() -> int:
    """Measure, print, and say by the exit status whether the bars are met."""
    parser = options("What scheduling brings and costs", repeats=7)
    parser.add_argument("--threads", type=int, default=2, help="torch threads, default 2")
    parser.add_argument("--steps", type=int, help="denoising steps, by default the card's")
    asked = parser.parse_args()
    # Before torch is imported, which reads it once.
    os.environ["OMP_NUM_THREADS"] = str(asked.threads)
    figures: list[Figure] = []
    for name, frames in FORMS.items():
        requests = requests_of(frames, asked.steps)
        figures += batched(name, requests, asked.repeats)
        figures += taped(name, requests[0], asked.repeats)
        figures += overhead(name, requests[0], asked.repeats)
    bars = [
        at_most(figure, bar)
        for figure in figures
        for name, bar in BARS.items()
        if figure.name.startswith(name)
    ]
    return finish(Report(title="Scheduling", figures=tuple(figures), bars=tuple(bars)), as_json=asked.json)


def requests_of(frames: int | None, steps: int | None) -> list[Request]:
    """Eight requests of different prompts and seeds."""
    from restrike.cards.request import Request

    return [
        Request(prompt=prompt, seed=seed, frames=frames, steps=steps) for seed, prompt in enumerate(PROMPTS)
    ]


def batched(name: str, requests: list[Request], repeats: int) -> list[Figure]:
    """Eight submitted requests with a batch limit of eight, and the same one by one."""
    from restrike.engine.engine import Engine

    alone, together = Engine(device="cpu"), Engine(device="cpu", batch_limit=len(requests))

    def one_by_one() -> None:
        for request in requests:
            alone.generate("shapes", request)

    def at_once() -> None:
        for job in [together.submit("shapes", request) for request in requests]:
            job.result()

    runs = (one_by_one, at_once)
    paired(runs, 1)
    apart, batch = paired(runs, repeats)
    together.close()
    sizes = [size for size, count in together.metrics().forwards.items() for _ in range(count)]
    return [
        Figure(name=f"8 {name} one by one", unit="s", values=apart),
        Figure(name=f"8 {name} batched", unit="s", values=batch),
        ratio(f"batched / one by one, 8 {name}", batch, apart),
        Figure(name=f"steps a forward, 8 {name}", unit="", values=tuple(map(float, sizes))),
    ]


def taped(name: str, request: Request, repeats: int) -> list[Figure]:
    """Each step as the tape has it, once it is armed or was found not to pay, and eagerly.

    The two take their steps in turn, each as often the first: a hundredth shows only in hundreds of pairs;
    and all is loaded anew now and then, for where weights come to lie in memory is worth as much.
    """
    theirs: list[float] = []
    ours: list[float] = []
    replays = 0
    for _ in range(2 * repeats):
        replays += _taped_once(request, theirs, ours)
    return [
        Figure(name=f"eager step, {name}", unit="s", values=tuple(theirs)),
        ratio(f"tape / eager, {name}", ours, theirs),
        Figure(name=f"steps that the tape replayed, {name}", unit="of 1", values=(replays / len(ours),)),
    ]


def _taped_once(request: Request, theirs: list[float], ours: list[float]) -> int:
    """Add the steps of a few requests on two new engines; returns how many were replayed."""
    from restrike.engine.engine import Engine

    eager, tape = Engine(device="cpu", capture="off"), Engine(device="cpu", capture="tape")
    for engine in (eager, tape, tape):
        engine.generate("shapes", request)
    capturer = tape.load("shapes").capturer
    before = capturer.counters.replays
    for first, second in ((eager, tape), (tape, eager)) * 2:
        for one, other in zip(steps_of(first, request), steps_of(second, request), strict=True):
            theirs.append(one if first is eager else other)
            ours.append(other if first is eager else one)
    return capturer.counters.replays - before


def steps_of(engine: Engine, request: Request) -> Iterator[float]:
    """The seconds of each step of a request, advanced as they are asked for."""
    from restrike.engine.events import StepFinished

    for event in engine.stream("shapes", request):
        if isinstance(event, StepFinished):
            yield event.seconds


def overhead(name: str, request: Request, repeats: int) -> list[Figure]:
    """What a step costs in the engine beside the work itself: rounds, the door, events.

    Measured on steps that compute nothing, against the same loop driven by hand, in seconds of this thread.
    What an engine with the tape looks up for each step comes on top, and counts in its comparison with eager.
    """
    from restrike.engine.engine import Engine

    real, engine, card = Engine(device="cpu"), Engine(device="cpu"), free_card()
    tape = Engine(device="cpu", capture="tape")
    real.generate("shapes", request)
    step = Figure(name=f"a step, {name}", unit="s", values=tuple(steps_of(real, request)))
    extra: list[float] = []
    looked_up: list[float] = []
    for repeat in range(20 * repeats):
        bare, driven, taped = (
            each_step(events)
            for events in (
                by_hand(engine, card, request),
                engine.stream(card, request),
                tape.stream(card, request),
            )
        )
        if repeat >= repeats:
            extra.append(driven - bare)
            looked_up.append(taped - driven)
    return [
        step,
        Figure(name=f"overhead, {name}", unit="s", values=tuple(extra)),
        ratio(f"overhead / step, {name}", extra, [step.median] * len(extra)),
        Figure(name=f"look-ups of the tape, {name}", unit="s", values=tuple(looked_up)),
    ]


def each_step(events: Iterable[object]) -> float:
    """The seconds of a step after the first one."""
    from restrike.engine.events import StepFinished

    ends = [time.thread_time() for event in events if isinstance(event, StepFinished)]
    return (ends[-1] - ends[0]) / (len(ends) - 1)


@dataclass(frozen=True)
class Free:
    """The loop of a card with steps that hand back what they were given."""

    inner: Any

    def init(self, context: LoopContext) -> Any:
        return self.inner.init(context)

    def next(self, state: Any) -> StepPlan | None:
        plan = self.inner.next(state)
        return None if plan is None else replace(plan, compute=handed_back)

    def advance(self, state: Any, outputs: Tensors) -> None:
        self.inner.advance(state, outputs)

    def finalize(self, state: Any) -> LoopOutput:
        import numpy as np

        from restrike.loops.contract import LoopOutput

        return LoopOutput(frames_THWC=np.zeros((1, 64, 64, 3), np.uint8), latent=state.latent)


def handed_back(forward: object, inputs: Tensors) -> Tensors:
    """Computes nothing."""
    return {"latent": inputs["latent"], "velocity": inputs["latent"]}


def free_card() -> ModelCard:
    """The card `shapes` with free steps."""
    from restrike.models.shapes.card import CARD

    loop = CARD.loops[0]
    return replace(CARD, name="free", loops=(replace(loop, build=lambda found: Free(loop.build(found))),))


def by_hand(engine: Engine, card: ModelCard, request: Request) -> Iterator[object]:
    """The same loop without an engine around it, and the event of each step."""
    import torch

    from restrike.cards.request import resolve
    from restrike.engine.events import StepFinished
    from restrike.loops.contract import LoopContext

    resident = engine.load(card)
    spec, arguments = resolve(resident.card, request)
    loop, component = resident.loop(spec), resident.component
    context = LoopContext(arguments=arguments, item=0, device=resident.device, component=component)
    with torch.inference_mode():
        state = loop.init(context)
        while (plan := loop.next(state)) is not None:
            loop.advance(state, plan.compute(None, plan.inputs))
            yield StepFinished(
                item=0,
                step=plan.index + 1,
                total=plan.total,
                sigma=plan.sigma,
                component=plan.component,
                seconds=0.0,
            )


if __name__ == "__main__":
    sys.exit(main())
