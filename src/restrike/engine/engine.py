"""The engine: turns requests into pictures, one step at a time, as a stream of events.

It drives loops and never computes a step's mathematics itself; two streams that are advanced in turn never
see each other.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Generator, Hashable, Sequence
from contextlib import closing

import torch

from restrike.cards import registry
from restrike.cards.card import LoopSpec, ModelCard
from restrike.cards.identity import WeightIdentity, WeightStamp, stamp_of
from restrike.cards.request import Arguments, Request, resolve
from restrike.engine.capture.choice import checked_mode
from restrike.engine.capture.request import RequestCapture
from restrike.engine.compiled.adopter import Adopter
from restrike.engine.compiled.request import RequestCompiled
from restrike.engine.counts import CardCounters
from restrike.engine.devices import placement_for
from restrike.engine.events import Event, Failed, PictureFinished
from restrike.engine.extensions import Extension, Observer, acting, changing, checked
from restrike.engine.features import CardFeatures, FeatureCache
from restrike.engine.memory.admission import AdmissionGate
from restrike.engine.memory.report import Snapshot, WarmCard
from restrike.engine.memory.residency import Residency, residency_on
from restrike.engine.outcome import Outcome, outcome_of
from restrike.engine.requests import Cancellation, ReadyRequest, StreamOptions
from restrike.engine.resident import ResidentCard
from restrike.engine.result import Generation, Picture
from restrike.engine.scheduling.door import Door
from restrike.engine.scheduling.rounds import Happened, Rounds
from restrike.engine.scheduling.scheduler import Scheduler
from restrike.engine.scheduling.submitted import Submitted
from restrike.engine.scheduling.tally import Metrics, Tally
from restrike.engine.weights.gate import WeightsGate
from restrike.engine.weights.incoming import Source
from restrike.errors import Refused, RestrikeError


class Engine:
    """Loaded cards and the extensions that this engine runs with.

    `trust_remote_code` lets Python code that lies in a checkpoint run; without it such code is refused.
    Up to `batch_limit` steps of different pictures run as one forward; their results then equal those of
    steps run alone within the card's tolerance and not bit for bit, so it is 1, off, unless asked for.
    Of submitted requests up to `concurrency` run side by side.
    `memory_limit_bytes` is what it may use of each device's memory; by default RESTRIKE_MEMORY, else all
    that is free there when its first card is loaded.
    `capture` says how steps are replayed as graphs: "auto" where that pays, "off", or "tape" or "cuda" by
    name. `cells` arms compiled calls of the cards that are loaded; without it all forwards are eager.
    """

    def __init__(
        self,
        *,
        device: str | None = None,
        precision: str | None = None,
        extensions: tuple[Extension, ...] = (),
        trust_remote_code: bool = False,
        batch_limit: int = 1,
        concurrency: int = 8,
        memory_limit_bytes: int | None = None,
        capture: str = "auto",
        cells: Adopter | None = None,
    ) -> None:
        if batch_limit < 1:
            raise Refused(f"a batch limit of {batch_limit} is below 1; 1 runs every step alone")
        if concurrency < 1:
            raise Refused(f"concurrency {concurrency} is below 1; 1 runs submitted requests one by one")
        self._trust_remote_code = trust_remote_code
        self._device, self._precision = device, precision
        self._capture = checked_mode(capture)
        self._cells = cells
        self._extensions = checked(extensions)
        self._residents: dict[ModelCard, ResidentCard] = {}
        self._lock = threading.Lock()
        self._batch_limit = batch_limit
        self._memory_limit_bytes = memory_limit_bytes
        self._residencies: dict[str, Residency] = {}
        self._door, self._tally = Door((WeightsGate(), AdmissionGate())), Tally()
        self.features = FeatureCache()
        """What text encoders made, for later requests on any of its cards."""
        self.scheduler = Scheduler(self._rounds, self._door.changed, concurrency=concurrency)

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
            is_new = asked not in self._residents
            if is_new:
                # Not before: fitting reads files, and may ask the hub, which a further request need not.
                found = registry.fitted(found)
                placement = placement_for(found, self._device, self._precision)
                self._residents[asked] = ResidentCard(
                    found,
                    placement,
                    self._residency(placement.device),
                    trust_remote_code=self._trust_remote_code,
                    capture=self._capture,
                )
            resident = self._residents[asked]
        if is_new and self._cells is not None:
            # Not under the lock: until it has come to an end, other requests of the card run eagerly.
            self._cells.adopt(resident)
        return resident

    def _residency(self, device: str) -> Residency:
        if device not in self._residencies:
            self._residencies[device] = residency_on(torch.device(device), self._memory_limit_bytes)
        return self._residencies[device]

    def memory(self) -> tuple[Snapshot, ...]:
        """What is where on each device that this engine has used, how much of it may be used, and why."""
        return tuple(residency.snapshot() for residency in list(self._residencies.values()))

    def warm(self) -> tuple[WarmCard, ...]:
        """The cards that have components in memory, and what is armed for them; waits for nobody."""
        return tuple(
            WarmCard(
                card=card.name,
                weights=stamp_of(card, resident.held.now).weights,
                graphs=resident.capturer.counters.armed,
                cells=resident.compiled.counters.armed,
            )
            for card, resident in list(self._residents.items())
            if resident.loaded()
        )

    def counters(self) -> tuple[CardCounters, ...]:
        """What cells and captures did for each card so far; waits for nobody and touches no file."""
        return tuple(
            CardCounters(
                card=resident.card.name,
                cells=resident.compiled.counters,
                captures=resident.capturer.counters,
            )
            for resident in list(self._residents.values())
        )

    def generate(
        self, card: str | ModelCard, request: Request, options: StreamOptions | None = None
    ) -> Generation:
        """Run a request to its end; raises what made it fail."""
        events = deque(self.stream(card, request, options), maxlen=1)
        return outcome_of(events.pop(), ()).result()

    def generate_interleaved(
        self,
        requests: Sequence[tuple[str | ModelCard, Request]],
        options: Sequence[StreamOptions] | None = None,
    ) -> list[Outcome]:
        """Run several requests side by side, one step of each in turn, and tell how each of them ended.

        The bytes are those of one after another, unless the engine runs steps in batches. A request that
        fails, or cannot begin, costs the others nothing.
        """
        rounds = self._rounds()
        ends: dict[Hashable, Event] = {}
        each = options or [StreamOptions()] * len(requests)
        for index, ((card, request), watched) in enumerate(zip(requests, each, strict=True)):
            try:
                rounds.add(index, self._ready(card, request, watched))
            except RestrikeError as error:
                ends[index] = Failed(error=error)
        pictures: dict[Hashable, list[Picture]] = defaultdict(list)
        for index, event in _all(rounds):
            ends[index] = event
            if isinstance(event, PictureFinished):
                pictures[index].append(event.picture)
        return [outcome_of(ends[index], tuple(pictures[index])) for index in range(len(requests))]

    def stream(
        self, card: str | ModelCard, request: Request, options: StreamOptions | None = None
    ) -> Generator[Event, None, None]:
        """Run a request as its events are asked for: `Started` first, exactly one terminal event last.

        Nothing runs before the first `next`; closing the iterator stops the work and lets go of all it held.
        A request that cannot begin raises instead of starting. One that must wait for others to leave waits
        in `next`.
        """
        rounds = self._rounds()
        rounds.add(None, self._ready(card, request, options or StreamOptions()))
        return _events(rounds)

    def submit(
        self,
        card: str | ModelCard,
        request: Request,
        options: StreamOptions | None = None,
        *,
        id: str | None = None,
    ) -> Submitted:
        """Let a request run on the engine's own thread beside other submitted ones; returns at once.

        Raises:
            Refused: the request cannot begin, another of that id is in flight, or the engine was closed.
        """
        return self.scheduler.submit(self._ready(card, request, options or StreamOptions()), id)

    def drain(self) -> None:
        """Take no more submitted requests, and return when all of them have ended."""
        self.scheduler.drain()

    def close(self) -> None:
        """Take no more submitted requests, cancel all of them, and return when they have ended."""
        self.scheduler.close()
        if self._cells is not None:
            self._cells.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Wait for what was submitted, or cancel it when the block failed."""
        if kind is None:
            self.drain()
        else:
            self.close()

    def metrics(self) -> Metrics:
        """What this engine's requests have done so far, and how many there are now."""
        inside, at_the_door = self._door.counts
        return self._tally.snapshot(running=inside, waiting=at_the_door + self.scheduler.waiting)

    def clear(self) -> int:
        """Let go of all that is not in use: components with their graphs, text features.

        What a running request holds from step to step stays, and so do weights that are in no file and what
        sleeps; the rest is loaded again when it is asked for. Returns the bytes of devices that are freed.
        """
        self.features.clear()
        freed_bytes = sum(residency.clear() for residency in list(self._residencies.values()))
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()
        return freed_bytes

    def version_of(self, card: str | ModelCard, component: str) -> WeightIdentity:
        """What the weights of a component are now: base, sync version, adapters that are fused into it."""
        return self.load(card).held.version_of(component)

    def stamp_of(self, card: ModelCard) -> WeightStamp:
        """The weights that a card can read here, loaded or not; raises as `cards.identity.stamp_of`."""
        resident = self._residents.get(card)
        return stamp_of(card) if resident is None else stamp_of(card, resident.held.now)

    def sync(self, card: str | ModelCard, component: str, source: Source, version: int) -> WeightIdentity:
        """Replace the weights of a component by tensors or safetensors files, all or nothing.

        Waits for the requests that run on the card, which end with the weights that they began with; later
        ones have the new weights. Returns what `version_of` says of them.

        Raises:
            Unknown, NotFound, Refused: as `CardWeights.sync`; the old weights keep serving.
        """
        held = self.load(card).held
        before = held.version_of(component)
        try:
            now = held.sync(component, source, version)
        finally:
            with self._door.changed:  # whoever waited for the sync may come in
                self._door.changed.notify_all()
        if (now.base, now.version) != (before.base, before.version):
            self.features.invalidate(before)
        return now

    def _rounds(self) -> Rounds:
        return Rounds(self._door, self._tally, batch_limit=self._batch_limit)

    def _ready(self, card: str | ModelCard, request: Request, options: StreamOptions) -> ReadyRequest:
        resident = self.load(card)
        spec, arguments = resolve(resident.card, request)
        self._admit_extensions(resident, spec, arguments)
        capture = RequestCapture(capturer=resident.capturer, card=resident.card.name, spec=spec)
        capture.check()
        compiled = RequestCompiled(table=resident.compiled, exact=arguments.exact)
        compiled.check()
        return ReadyRequest(
            resident=resident,
            spec=spec,
            arguments=arguments.settled(),
            features=CardFeatures(self.features, resident.placement, resident.held.version_of),
            extensions=checked((*self._extensions, *_observing(options))),
            preview_every=options.preview_every,
            cancellation=options.cancellation or Cancellation(),
            batch_limit=self._batch_limit,
            capture=capture,
            compiled=compiled,
        )

    def _admit_extensions(self, resident: ResidentCard, spec: LoopSpec, arguments: Arguments) -> None:
        if arguments.exact and changing(self._extensions):
            name = changing(self._extensions)[0]
            raise Refused(f"an exact request cannot run on an engine with extension '{name}'")
        if spec.opaque and acting(self._extensions):
            name, card = acting(self._extensions)[0], resident.card.name
            raise Refused(
                f"extension '{name}' cannot act on card '{card}': its steps are opaque; leave it out"
            )


def _observing(options: StreamOptions) -> tuple[Observer, ...]:
    for name in acting(options.observers):
        raise Refused(f"extension '{name}' does more than look; give it to the engine, to all requests")
    return options.observers


def _all(rounds: Rounds) -> Generator[Happened, None, None]:
    """Round after round until no request is left; closing it stops them."""
    try:
        while rounds.names:
            with closing(rounds.round()) as happened:
                yield from happened
            yield from rounds.wait()
    finally:
        rounds.close()


def _events(rounds: Rounds) -> Generator[Event, None, None]:
    """The events of a lone request."""
    with closing(_all(rounds)) as happened:
        for _, event in happened:
            yield event
