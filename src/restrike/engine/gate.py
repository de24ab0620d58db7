"""The interleave gate: several requests side by side must yield what they yield one after the other.

It compares bytes, not pictures by eye; a loop, model or extension that keeps state outside its request fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from restrike.cards.card import ModelCard
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.engine.result import Generation
from restrike.errors import Refused
from restrike.keys import Digest, digest


@dataclass(frozen=True, kw_only=True)
class GateReport:
    """What the gate saw: `differing` names each picture that changed, none when it holds."""

    pictures: int
    differing: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether every picture kept its bytes."""
        return not self.differing


def interleave_gate(engine: Engine, card: str | ModelCard, requests: Sequence[Request]) -> GateReport:
    """Run the requests one after the other, then interleaved step by step, and compare.

    Compared are frames, final latent and log-probabilities, bit by bit.

    Raises:
        Refused: fewer than two requests, or one without a seed; and what a request is refused for.
    """
    if len(requests) < 2:
        raise Refused(f"the interleave gate needs at least two requests, not {len(requests)}")
    if any(request.seed is None for request in requests):
        raise Refused("the interleave gate needs a seed in every request")
    alone = [engine.generate(card, request) for request in requests]
    together = engine.generate_interleaved([(card, request) for request in requests])
    found = [
        f"request {index}, picture {item}"
        for index, pair in enumerate(zip(alone, together, strict=True))
        for item in _differing(*pair)
    ]
    return GateReport(pictures=sum(len(made.pictures) for made in alone), differing=tuple(found))


def contents(generation: Generation) -> dict[int, Digest]:
    """The digest of each picture by its item: frames, final latent and log-probabilities."""
    return {
        picture.item: digest("picture", "1", [picture.frames_THWC, picture.latent, list(picture.log_probs)])
        for picture in generation.pictures
    }


def _differing(one: Generation, other: Generation) -> list[int]:
    mine, theirs = contents(one), contents(other)
    return [item for item, content in mine.items() if theirs[item] != content]
