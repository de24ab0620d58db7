"""The engine: turns requests into pictures, one step at a time, as a stream of events.

It drives loops and never computes a step's mathematics itself; two streams that are advanced in turn never
see each other.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from restrike.cards import registry
from restrike.cards.card import LoopSpec, ModelCard
from restrike.cards.request import Arguments, Request, resolve
from restrike.engine.devices import placement_for
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
from restrike.engine.execution import PictureRun
from restrike.engine.extensions import Extension, ExtensionMemory, altering, checked, intercepting
from restrike.engine.resident import ResidentCard
from restrike.engine.result import Generation, Picture
from restrike.engine.versions import versions
from restrike.errors import Cancelled, Refused, Shortfall, typed
from restrike.loops.contract import LoopContext, LoopOutput, Notices
from restrike.media.provenance import Provenance


class Cancellation:
    """A flag that stops a request at its next step boundary; safe to set from any thread."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def cancel(self) -> None:
        """Ask the request to stop."""
        self._event.set()

    def check(self) -> None:
        """Raise Cancelled once `cancel` was called."""
        if self._event.is_set():
            raise Cancelled("cancelled at a step boundary")


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """How a request is watched: a preview after every n-th step (0: none), and its cancellation."""

    preview_every: int = 0
    cancellation: Cancellation | None = None


class Engine:
    """Loaded cards and the extensions that this engine runs with.

    `trust_remote_code` lets Python code that lies in a checkpoint run; without it such code is refused.
    """

    def __init__(
        self,
        *,
        device: str | None = None,
        precision: str | None = None,
        extensions: tuple[Extension, ...] = (),
        trust_remote_code: bool = False,
    ) -> None:
        self._trust_remote_code = trust_remote_code
        self._device, self._precision = device, precision
        self._extensions = checked(extensions)
        self._residents: dict[ModelCard, ResidentCard] = {}
        self._lock = threading.Lock()

    def load(self, card: str | ModelCard) -> ResidentCard:
        """The card by name, checkpoint folder or hub id; loaded once, its components on first use.

        Raises:
            Unknown: no such card or device.
            Refused: the card contradicts itself, or its precision is not held.
        """
        found = registry.find(card) if isinstance(card, str) else card
        # By the whole card: another one of the same name and place is another card.
        asked = found
        with self._lock:
            if asked not in self._residents:
                # Not before: fitting reads files, and may ask the hub, which a further request need not.
                found = registry.fitted(found)
                placement = placement_for(found, self._device, self._precision)
                self._residents[asked] = ResidentCard(
                    found, placement, trust_remote_code=self._trust_remote_code
                )
            return self._residents[asked]

    def generate(self, card: str | ModelCard, request: Request) -> Generation:
        """Run a request to its end; raises what made it fail."""
        events = deque(self.stream(card, request), maxlen=1)
        return _outcome(events.pop())

    def generate_interleaved(self, requests: Sequence[tuple[str | ModelCard, Request]]) -> list[Generation]:
        """Run several requests side by side, one step of each in turn; same bytes as one after another."""
        streams = {index: self.stream(card, request) for index, (card, request) in enumerate(requests)}
        ends: dict[int, Event] = {}
        while streams:
            for index, stream in list(streams.items()):
                event = next(stream, None)
                if event is None:
                    del streams[index]
                else:
                    ends[index] = event
        return [_outcome(ends[index]) for index in range(len(requests))]

    def stream(
        self, card: str | ModelCard, request: Request, options: StreamOptions | None = None
    ) -> Generator[Event, None, None]:
        """Run a request as its events are asked for: `Started` first, exactly one terminal event last.

        Nothing runs before the first `next`; closing the iterator stops the work and lets go of all it held.
        A request that cannot begin raises instead of starting.
        """
        resident = self.load(card)
        spec, arguments = resolve(resident.card, request)
        self._admit_extensions(resident, spec, arguments)
        return self._events(resident, spec, arguments, options or StreamOptions())

    def _admit_extensions(self, resident: ResidentCard, spec: LoopSpec, arguments: Arguments) -> None:
        if arguments.exact and altering(self._extensions):
            changing = altering(self._extensions)[0]
            raise Refused(f"an exact request cannot run on an engine with extension '{changing}'")
        if spec.opaque and intercepting(self._extensions):
            name, card = intercepting(self._extensions)[0], resident.card.name
            raise Refused(
                f"extension '{name}' cannot act on card '{card}': its steps are opaque; leave it out"
            )

    def _events(
        self, resident: ResidentCard, spec: LoopSpec, arguments: Arguments, options: StreamOptions
    ) -> Generator[Event, None, None]:
        began = time.perf_counter()
        yield Started(
            card=resident.card.name,
            seed=arguments.seed,
            items=arguments.items,
            steps=0 if "steps" in arguments.left_open else arguments.steps * len(arguments.items),
        )
        pictures: list[Picture] = []
        notices: list[str] = []
        shared: dict[str, Any] = {}
        try:
            loop = resident.loop(spec)
            for message in loop.notices(arguments) if isinstance(loop, Notices) else ():
                notices.append(message)
                yield Noticed(message=message)
            for item in arguments.items:
                for event in self._picture(resident, spec, arguments, item, shared, options):
                    if isinstance(event, PictureFinished):
                        pictures.append(event.picture)
                    if isinstance(event, Noticed):
                        notices.append(event.message)
                    yield event
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
                card=resident.card.name,
                arguments=arguments,
                pictures=tuple(pictures),
                seconds=time.perf_counter() - began,
                notices=tuple(notices),
            )
        )

    def _picture(
        self,
        resident: ResidentCard,
        spec: LoopSpec,
        arguments: Arguments,
        item: int,
        shared: dict[str, Any],
        options: StreamOptions,
    ) -> Generator[Event, None, None]:
        cancellation = options.cancellation or Cancellation()
        cancellation.check()
        run = PictureRun(
            loop=resident.loop(spec),
            context=LoopContext(
                arguments=arguments,
                item=item,
                device=resident.device,
                component=resident.component,
                shared=shared,
            ),
            memory=ExtensionMemory(extensions=self._extensions),
            turn=resident.turn,
        )
        try:
            while (plan := run.peek()) is not None:
                cancellation.check()
                seconds = run.step()
                step = plan.index + 1
                yield StepFinished(
                    item=item,
                    step=step,
                    total=plan.total,
                    sigma=plan.sigma,
                    component=plan.component,
                    seconds=seconds,
                )
                if options.preview_every and step % options.preview_every == 0:
                    frames_THWC = run.preview()
                    if frames_THWC is not None:
                        yield PreviewReady(item=item, step=step, frames_THWC=frames_THWC)
            cancellation.check()
            output = run.finalize()
            yield PictureFinished(picture=_picture_of(resident, spec, arguments, item, output))
        except Exception:
            # What was observed may tell why it failed.
            yield from _reported(run, item)
            raise
        else:
            yield from _reported(run, item)
        finally:
            run.abandon()


def _reported(run: PictureRun, item: int) -> Iterator[Noticed]:
    return (Noticed(message=message, item=item) for message in run.memory.report())


def _picture_of(
    resident: ResidentCard, spec: LoopSpec, arguments: Arguments, item: int, output: LoopOutput
) -> Picture:
    fps = output.fps or arguments.fps
    return Picture(
        item=item,
        frames_THWC=output.frames_THWC,
        fps=fps,
        latent=output.latent,
        log_probs=output.log_probs,
        audio_CN=output.audio_CN,
        sample_rate_hz=output.sample_rate_hz,
        provenance=Provenance(
            card=resident.address,
            weights=resident.weights(spec),
            arguments=arguments.recorded() | ({"fps": output.fps} if output.fps else {}),
            seed=arguments.seed,
            item=item,
            versions=versions(resident.card.libraries),
        ),
    )


def _short_of_memory(error: Exception) -> Shortfall | None:
    # torch has a class for a GPU that is full, and for main memory nothing but these words.
    if isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error):
        return Shortfall("out of memory: ask for a smaller size, fewer frames, or use a larger machine")
    return None


def _outcome(last: Event) -> Generation:
    if isinstance(last, Succeeded):
        return last.generation
    if isinstance(last, Failed | Stopped):
        raise last.error
    raise RuntimeError("a stream ended without a terminal event")
