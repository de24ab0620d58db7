"""The interleave gate: several requests side by side must yield what they yield one after the other.

It compares bytes, not pictures by eye; a loop, model or extension that keeps state outside its request fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from restrike.cards.card import ModelCard
from restrike.cards.request import Request
from restrike.engine.divergence import Divergence, Trace, Tracer, first_divergence, traced, traces
from restrike.engine.engine import Engine
from restrike.engine.requests import StreamOptions
from restrike.engine.result import Generation
from restrike.errors import Refused
from restrike.keys import Digest, digest


@dataclass(frozen=True, kw_only=True)
class Changed:
    """A picture that came out differently beside other requests, and where it first did."""

    request: int
    item: int
    divergence: Divergence

    @property
    def name(self) -> str:
        """Which picture it is."""
        return f"request {self.request}, picture {self.item}"

    def __str__(self) -> str:
        return f"{self.name}: {self.divergence}"


@dataclass(frozen=True, kw_only=True)
class GateReport:
    """What the gate saw: how many pictures it compared, and those that changed."""

    pictures: int
    changed: tuple[Changed, ...]

    @property
    def differing(self) -> tuple[str, ...]:
        """The name of each picture that changed, none when the gate holds."""
        return tuple(each.name for each in self.changed)

    @property
    def holds(self) -> bool:
        """Whether every picture kept its bytes."""
        return not self.changed


def interleave_gate(engine: Engine, card: str | ModelCard, requests: Sequence[Request]) -> GateReport:
    """Run the requests one after the other, then interleaved step by step, and compare.

    Compared are what each step read and made, the final latent, the log-probabilities and the frames, bit
    by bit; a picture that is empty both times has not kept its bytes.

    Raises:
        Refused: fewer than two requests, or one without a seed; and what a request is refused for.
    """
    if len(requests) < 2:
        raise Refused(f"the interleave gate needs at least two requests, not {len(requests)}")
    if any(request.seed is None for request in requests):
        raise Refused("the interleave gate needs a seed in every request")
    alone = [traced(engine, card, request)[1] for request in requests]
    found = [
        Changed(request=index, item=item, divergence=divergence)
        for index, together in enumerate(_interleaved(engine, card, requests))
        for item, trace in alone[index].items()
        if (divergence := first_divergence(trace, together[item])) is not None
    ]
    return GateReport(pictures=sum(map(len, alone)), changed=tuple(found))


def _interleaved(
    engine: Engine, card: str | ModelCard, requests: Sequence[Request]
) -> list[dict[int, Trace]]:
    tracers = [Tracer() for _ in requests]
    watched = [StreamOptions(observers=(tracer,)) for tracer in tracers]
    made = engine.generate_interleaved([(card, request) for request in requests], watched)
    return [traces(tracer, end.result()) for tracer, end in zip(tracers, made, strict=True)]


def contents(generation: Generation) -> dict[int, Digest]:
    """The digest of each picture by its item: frames, final latent and log-probabilities."""
    return {
        picture.item: digest("picture", "1", [picture.frames_THWC, picture.latent, list(picture.log_probs)])
        for picture in generation.pictures
    }
