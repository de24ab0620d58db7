"""A request on its way: a generator of events that stands still wherever the engine has to decide.

It asks to be let in, and then for each step to be executed; it executes none itself and knows no other
request.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

from restrike.cards.card import LoopSpec
from restrike.cards.identity import adapted
from restrike.cards.request import Arguments
from restrike.engine.capture.request import RequestCapture
from restrike.engine.compiled.request import RequestCompiled
from restrike.engine.events import (
    Event,
    Failed,
    Noticed,
    PictureFinished,
    PreviewReady,
    Started,
    StepFinished,
    Stopped,
    Succeeded,
)
from restrike.engine.extensions import Extension, ExtensionMemory, Observer, intercepting
from restrike.engine.kernels.ops import STEP_OPS
from restrike.engine.memory.peaks import Form, Phase, form_of, step_phase
from restrike.engine.pictures import PictureRun
from restrike.engine.resident import ResidentCard
from restrike.engine.result import Generation, Picture
from restrike.engine.scheduling.gates import Ask
from restrike.engine.versions import versions
from restrike.engine.weights.leases import stack_of
from restrike.errors import Cancelled, Shortfall, typed
from restrike.loops.contract import (
    Features,
    LoopContext,
    LoopOutput,
    Notices,
    StepPlan,
    Tensors,
    computed,
)
from restrike.media.provenance import Provenance


class Cancellation:
    """A flag that stops a request at its next step boundary; safe to set from any thread.

    `asked` is called at each boundary too, on the thread of the request, and may raise Cancelled itself.
    """

    def __init__(self, asked: Callable[[], None] = lambda: None) -> None:
        self._event = threading.Event()
        self._asked = asked

    def cancel(self) -> None:
        """Ask the request to stop."""
        self._event.set()

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._event.is_set()

    def check(self) -> None:
        """Raise Cancelled once `cancel` was called."""
        self._asked()
        if self._event.is_set():
            raise Cancelled("cancelled at a step boundary")


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """How a request is watched: a preview after every n-th step (0: none), its cancellation, who looks on.

    `observers` see the steps of this request alone, after the engine's own extensions.
    """

    preview_every: int = 0
    cancellation: Cancellation | None = None
    observers: tuple[Observer, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PlannedStep:
    """The next step of one picture."""

    plan: StepPlan
    run: PictureRun
    request: ReadyRequest


@dataclass(frozen=True, kw_only=True)
class StepReady:
    """Pictures of a request stand before a step each; send a `StepDone` for each, or throw what failed."""

    steps: tuple[PlannedStep, ...]


@dataclass(frozen=True, kw_only=True)
class StepDone:
    """What the step computed, and the seconds that it took."""

    outputs: Tensors
    seconds: float


class Between(Enum):
    """Steps were taken and their events told; the next ones are not planned yet."""

    STEPS = "steps"


RequestSteps = Generator[Event | Ask | StepReady | Between, tuple[StepDone, ...] | None, None]
"""Yields `Started` and its `Ask`, is resumed once it was let in, and goes on with events and steps."""


@dataclass(frozen=True, kw_only=True)
class ReadyRequest:
    """A request that was understood and whose card is known; nothing of it has run."""

    resident: ResidentCard
    spec: LoopSpec
    arguments: Arguments
    extensions: tuple[Extension, ...]
    capture: RequestCapture
    compiled: RequestCompiled
    preview_every: int = 0
    cancellation: Cancellation = field(default_factory=Cancellation)
    features: Features = computed
    batch_limit: int = 1
    """How many steps of different pictures its engine computes as one."""

    @property
    def ask(self) -> Ask:
        """What it asks the gates."""
        return Ask(resident=self.resident, spec=self.spec, arguments=self.arguments)

    @property
    def alone(self) -> str | None:
        """Why its steps share no forward with others, None when they may."""
        if self.arguments.exact:
            return "the request is exact"
        if self.spec.opaque:
            return f"card '{self.resident.card.name}' runs its steps itself"
        answering = intercepting(self.extensions)
        return f"extension '{answering[0]}' may answer in place of the model" if answering else None

    def step_phase(self, plan: StepPlan) -> AbstractContextManager[None]:
        """What is entered around a step of this request, or of several as one, under the device's turn."""
        return self.resident.phase(step_phase(self.form, plan))

    @cached_property
    def form(self) -> Form:
        """What it has in common with requests that need as much memory."""
        return form_of(self.spec, self.arguments)

    def started(self) -> Started:
        """Its first event."""
        asked = self.arguments
        steps = 0 if "steps" in asked.left_open else asked.steps * len(asked.items)
        return Started(card=self.resident.card.name, seed=asked.seed, items=asked.items, steps=steps)

    def steps(self) -> RequestSteps:
        """Run it; see `RequestSteps`. Closing the generator lets go of all that it holds."""
        began, made = time.perf_counter(), _Made()
        yield self.started()
        try:
            yield self.ask
            yield from self._pictures(made)
        except Cancelled as error:
            yield Stopped(error=error)
            return
        except Exception as error:
            failure = _short_of_memory(error) or typed(error)
            failure.__cause__ = error if failure is not error else error.__cause__
            yield Failed(error=failure)
            return
        yield Succeeded(
            generation=Generation(
                card=self.resident.card.name,
                arguments=self.arguments,
                pictures=tuple(made.pictures),
                seconds=time.perf_counter() - began,
                notices=tuple(made.notices),
                capture=self.capture.report(),
                compiled=self.compiled.report(),
            )
        )

    def _pictures(self, made: _Made) -> RequestSteps:
        self.resident.held.settle(self.spec, self.arguments.adapters)
        loop = self.resident.loop(self.spec)
        for message in loop.notices(self.arguments) if isinstance(loop, Notices) else ():
            yield made.noticed(Noticed(message=message))
        if self.alone and min(self.batch_limit, len(self.arguments.items)) > 1:
            message = f"its pictures are made one after the other and not as a batch: {self.alone}"
            yield made.noticed(Noticed(message=message))
        shared: dict[str, Any] = {}
        items, abreast = self.arguments.items, 1 if self.alone else self.batch_limit
        for start in range(0, len(items), abreast):
            runs = [self._run(item, shared) for item in items[start : start + abreast]]
            yield from self._side_by_side(runs, made)
        for message in (*self.capture.notices(), *self.compiled.notices()):
            yield made.noticed(Noticed(message=message))

    def _run(self, item: int, shared: dict[str, Any]) -> PictureRun:
        self.cancellation.check()
        return PictureRun(
            loop=self.resident.loop(self.spec),
            context=LoopContext(
                arguments=self.arguments,
                item=item,
                device=self.resident.device,
                component=self._component,
                shared=shared,
                features=self.features,
                apart=lambda: self.resident.turn,
                ops=STEP_OPS,
            ),
            memory=ExtensionMemory(extensions=self.extensions),
            turn=self.resident.turn,
            phase=lambda name: self.resident.phase(Phase(name=name, form=self.form)),
            runs_ahead=self.spec.opaque,
        )

    def _component(self, name: str) -> Any:
        # To bring it may take minutes, and several may be needed before the first step.
        self.cancellation.check()
        return self.resident.component(name)

    def _side_by_side(self, runs: list[PictureRun], made: _Made) -> RequestSteps:
        """Pictures that take their steps together and are finished one after the other."""
        unfinished = deque(runs)
        try:
            while ready := self._planned(runs):
                done = yield StepReady(steps=ready)
                assert done is not None
                for step, result in zip(ready, done, strict=True):
                    step.run.take(result.outputs, result.seconds)
                    yield _step_finished(step, result.seconds)
                    yield from self._preview(step.run, step.plan.index + 1)
                yield Between.STEPS
            for run in runs:
                self.cancellation.check()
                picture = self._finished(run.context.item, run.finalize())
                made.pictures.append(picture)
                yield PictureFinished(picture=picture)
                yield from _reported(unfinished.popleft(), made)
        except Exception:
            # What was observed may tell why it failed.
            for run in unfinished:
                yield from _reported(run, made)
            raise
        finally:
            for run in runs:
                run.abandon()

    def _planned(self, runs: list[PictureRun]) -> tuple[PlannedStep, ...]:
        ready: list[PlannedStep] = []
        for run in runs:
            self.cancellation.check()
            if (plan := run.peek()) is not None:
                ready.append(PlannedStep(plan=plan, run=run, request=self))
        if ready:
            self.cancellation.check()
        return tuple(ready)

    def _preview(self, run: PictureRun, step: int) -> Iterator[PreviewReady]:
        if self.preview_every and step % self.preview_every == 0:
            frames_THWC = run.preview()
            if frames_THWC is not None:
                yield PreviewReady(item=run.context.item, step=step, frames_THWC=frames_THWC)

    def _finished(self, item: int, output: LoopOutput) -> Picture:
        asked, resident = self.arguments, self.resident
        return Picture(
            item=item,
            frames_THWC=output.frames_THWC,
            fps=output.fps or asked.fps,
            latent=output.latent,
            log_probs=output.log_probs,
            audio_CN=output.audio_CN,
            sample_rate_hz=output.sample_rate_hz,
            provenance=Provenance(
                card=resident.address,
                weights=adapted(resident.weights(self.spec), stack_of(asked.adapters)),
                arguments=asked.recorded() | ({"fps": output.fps} if output.fps else {}),
                seed=asked.seed,
                item=item,
                versions=versions(resident.card.libraries),
                weight_versions=resident.held.versions(self.spec),
                cells=tuple(self.compiled.report().cells),
            ),
        )


@dataclass(kw_only=True)
class _Made:
    """What a request has so far."""

    pictures: list[Picture] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def noticed(self, event: Noticed) -> Noticed:
        self.notices.append(event.message)
        return event


def _step_finished(step: PlannedStep, seconds: float) -> StepFinished:
    plan = step.plan
    return StepFinished(
        item=step.run.context.item,
        step=plan.index + 1,
        total=plan.total,
        sigma=plan.sigma,
        component=plan.component,
        seconds=seconds,
    )


def _reported(run: PictureRun, made: _Made) -> Iterator[Noticed]:
    for message in run.memory.report():
        yield made.noticed(Noticed(message=message, item=run.context.item))


def _short_of_memory(error: Exception) -> Shortfall | None:
    # torch has a class for a GPU that is full, and for main memory nothing but these words.
    if isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error):
        return Shortfall("out of memory: ask for a smaller size, fewer frames, or use a larger machine")
    return None
