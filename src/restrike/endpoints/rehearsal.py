"""Runs a handler with models that make grey pictures, to see what it asks of them. Loads no weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

import numpy as np

from restrike.cards.card import ModelCard
from restrike.cards.request import Arguments, Request, resolve
from restrike.endpoints.context import Context
from restrike.endpoints.declaration import Endpoint, Handler
from restrike.endpoints.saving import Files, check_clip
from restrike.endpoints.serving import bound, set_up, told, with_seed
from restrike.endpoints.slots import Cards, SlotModel
from restrike.errors import Refused
from restrike.media.provenance import Provenance

if TYPE_CHECKING:
    from restrike.engine.result import Generation

_CALLS_MOST = 256
_SEED = 0


@dataclass(frozen=True, kw_only=True)
class SlotCall:
    """What a handler asked of the model in a slot, and what that means for its card."""

    slot: str
    request: Request
    arguments: Arguments


@dataclass
class Rehearsal:
    """An endpoint with its cards; `calls` are those of the payload that was rehearsed last."""

    endpoint: Endpoint
    cards: Cards
    calls: list[SlotCall] = field(default_factory=list)
    _instance: Any = None

    def calls_of(self, handler: Handler, payload: Any) -> tuple[SlotCall, ...]:
        """The calls that a handler makes for a payload, in order.

        Raises:
            RestrikeError: what the handler raises, as when it is served, or a card that cannot serve it.
        """
        context = self._context()
        with told(self.endpoint, handler):
            if self._instance is None:
                self._instance = set_up(self.endpoint, context)
            self.calls.clear()
            bound(handler, self._instance)(context, payload)
        return tuple(self.calls)

    def _context(self) -> Context:
        return Context(
            slots={name: SlotModel(card, self._maker(name)) for name, card in self.cards.items()},
            seed=_SEED,
            files=Files(folder=Path(gettempdir()), write=check_clip),
            check=lambda: None,
            watch=lambda event: None,
            provenance=lambda: _provenance(self.endpoint.name),
        )

    def _maker(self, slot: str) -> Any:
        def make(card: ModelCard, request: Request) -> Generation:
            if len(self.calls) == _CALLS_MOST:
                raise Refused(
                    f"endpoint '{self.endpoint.name}' makes more than {_CALLS_MOST} calls for one payload"
                )
            _, arguments = resolve(card, with_seed(request, _SEED))
            self.calls.append(SlotCall(slot=slot, request=request, arguments=arguments))
            return _grey(card, arguments)

        return make


def _grey(card: ModelCard, asked: Arguments) -> Generation:
    from restrike.engine.capture.counters import CaptureReport
    from restrike.engine.compiled.counters import CompiledReport
    from restrike.engine.result import Generation, Picture

    frames_THWC = np.full((asked.frames, asked.height, asked.width, 3), 128, np.uint8)
    pictures = tuple(
        Picture(item=item, frames_THWC=frames_THWC.copy(), fps=asked.fps, provenance=_provenance(card.name))
        for item in asked.items
    )
    return Generation(
        card=card.name,
        arguments=asked,
        pictures=pictures,
        seconds=0.0,
        capture=CaptureReport(backend=None, replays=0, eager_breaks={}, graphs=0, graph_bytes=0),
        compiled=CompiledReport(),
    )


def _provenance(name: str) -> Provenance:
    return Provenance(card=name, weights="", arguments={}, seed=_SEED, item=0, versions={})
