"""Watched cards: what the engine's tests look through. The model inside is always the real one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from restrike.cards.card import ModelCard
from restrike.cards.checkpoint import Checkpoint
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.engine.events import Event
from restrike.engine.execution import execute
from restrike.engine.gate import contents
from restrike.engine.pictures import PictureRun
from restrike.loops.contract import LoopContext, LoopOutput, StepPlan, Tensors
from restrike.loops.denoise import DenoiseLoop, DenoiseState
from restrike.models.digits.card import CARD
from restrike.models.digits.model import build_loop


@dataclass
class WatchedLoop:
    """The digits loop, counting the engine's calls; `before_advance` may raise, or cancel, at a step."""

    inner: DenoiseLoop
    calls: Counter[str] = field(default_factory=Counter)
    before_advance: Callable[[DenoiseState], None] = lambda state: None

    def init(self, context: LoopContext) -> DenoiseState:
        self.calls["init"] += 1
        return self.inner.init(context)

    def next(self, state: DenoiseState) -> StepPlan | None:
        self.calls["next"] += 1
        return self.inner.next(state)

    def advance(self, state: DenoiseState, outputs: Tensors) -> None:
        self.calls["advance"] += 1
        self.before_advance(state)
        self.inner.advance(state, outputs)

    def preview(self, state: DenoiseState) -> Any:
        self.calls["preview"] += 1
        return self.inner.preview(state)

    def finalize(self, state: DenoiseState) -> LoopOutput:
        self.calls["finalize"] += 1
        return self.inner.finalize(state)

    def abandon(self, state: DenoiseState) -> None:
        self.calls["abandon"] += 1


def looped(build: Callable[[DenoiseLoop], Any], name: str = "watched") -> ModelCard:
    """The digits card with another loop around, or in place of, its own."""

    def load(checkpoint: Checkpoint) -> Any:
        return build(build_loop(checkpoint))

    return replace(CARD, name=name, loops=(replace(CARD.loops[0], build=load),))


def watched(calls: Counter[str], before_advance: Callable[[DenoiseState], None] | None = None) -> ModelCard:
    """The digits card with a watched loop."""
    hook = before_advance or (lambda state: None)
    return looped(lambda inner: WatchedLoop(inner, calls, hook))


def failing_at(step: int, error: BaseException, item: int = 0) -> Callable[[DenoiseState], None]:
    """Raises in step `step` (from 1) of picture `item`."""

    def fail(state: DenoiseState) -> None:
        if state.context.item == item and state.index == step - 1:
            raise error

    return fail


def step(run: PictureRun) -> None:
    """Execute the planned step of a picture that no engine drives."""
    plan = run.peek()
    assert plan is not None
    with torch.inference_mode():
        outputs = execute(plan, run.context.component(plan.component), run.memory)
    run.take(outputs, seconds=0.0)


@contextmanager
def counted_forwards(engine: Engine) -> Iterator[Counter[str]]:
    """How often the modules of the digits card ran, by component."""
    calls: Counter[str] = Counter()
    hooks = [
        engine.load("digits")
        .component(name)
        .register_forward_pre_hook(lambda *_, name=name: calls.update([name]))
        for name in ("text_encoder", "transformer", "decoder")
    ]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def bytes_of(engine: Engine, request: Request, card: str | ModelCard = "digits") -> dict[int, str]:
    """The digest of each picture of a request that runs alone, by its item."""
    return {item: str(content) for item, content in contents(engine.generate(card, request)).items()}


def kinds(events: list[Event]) -> list[str]:
    """The names of the events' types."""
    return [type(event).__name__ for event in events]
