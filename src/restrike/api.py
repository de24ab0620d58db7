"""The Python front door: load a card, generate, watch. All it does is put an engine and a card together.

Nothing here changes a request; the engine does the work and keeps what was loaded.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from restrike.cards.adapters import Adapter
from restrike.cards.card import ModelCard
from restrike.cards.registry import DEFAULT
from restrike.cards.request_options import request_of
from restrike.engine.engine import Engine
from restrike.engine.events import Event
from restrike.engine.extensions import Extension, extension
from restrike.engine.requests import Cancellation, StreamOptions
from restrike.engine.result import Generation
from restrike.engine.scheduling.submitted import Submitted
from restrike.mint.adoption.choice import cells_for

if TYPE_CHECKING:
    import numpy as np


class Options(TypedDict, total=False):
    """What may be said beside the prompt; `Request` tells what each means, the card what is left out."""

    negative_prompt: str
    seed: int
    items: tuple[int, ...]
    steps: int
    guidance: float
    guidance_2: float
    guidance_mode: str
    guidance_interval: tuple[float, float]
    guidance_every: int
    width: int
    height: int
    frames: int
    fps: float
    solver: str
    shift: float
    sigmas: tuple[float, ...]
    image: str | Path | np.ndarray[Any, Any]
    call: Mapping[str, Any]
    adapters: Sequence[str | Path | Adapter]
    exact: bool


class Model:
    """A card on a device, its components loaded once, at the first generation."""

    def __init__(self, engine: Engine, card: ModelCard) -> None:
        self._engine = engine
        self.card = card

    def generate(self, prompt: str, **options: Unpack[Options]) -> Generation:
        """Make the pictures of a prompt.

        Raises:
            Refused: the card cannot serve the request; every fault is named.
            Unknown: there is no such option.
        """
        return self._engine.generate(self.card, request_of(prompt, options))

    def stream(
        self,
        prompt: str,
        *,
        preview_every: int = 0,
        cancellation: Cancellation | None = None,
        **options: Unpack[Options],
    ) -> Generator[Event, None, None]:
        """The same as events: `Started` first, one of `Succeeded`, `Failed`, `Stopped` last.

        A preview comes after every `preview_every`-th step (0: never); `cancellation.cancel()`, from any
        thread, stops at the next step boundary. Work is done only while the iterator is advanced.
        """
        watched = StreamOptions(preview_every=preview_every, cancellation=cancellation)
        return self._engine.stream(self.card, request_of(prompt, options), watched)

    def submit(
        self,
        prompt: str,
        *,
        preview_every: int = 0,
        cancellation: Cancellation | None = None,
        id: str | None = None,
        **options: Unpack[Options],
    ) -> Submitted:
        """The same on a thread of its own, beside other submitted requests; returns at once.

        What it returns gives the events (`for` or `async for`), the `result()`, and `cancel()`.
        """
        watched = StreamOptions(preview_every=preview_every, cancellation=cancellation)
        return self._engine.submit(self.card, request_of(prompt, options), watched, id=id)

    def close(self) -> None:
        """Cancel what was submitted and return when it has ended; `generate` and `stream` go on working."""
        self._engine.close()


def load(
    card: str | ModelCard = DEFAULT,
    *,
    device: str | None = None,
    precision: str | None = None,
    extensions: tuple[str | Extension, ...] = (),
    trust_remote_code: bool = False,
    capture: str = "auto",
    batch_limit: int = 1,
    cells: str | None = None,
    mint: str | None = None,
) -> Model:
    """The model of a card name, a checkpoint folder or a hub id.

    `device` is a torch device ("cuda:0"; the best one here by default), `precision` a torch dtype name that
    the card holds in, `extensions` are names of installed extensions or extension objects. Python code in a
    checkpoint runs only with `trust_remote_code`. `capture` says how steps are replayed as graphs: "auto"
    where that pays, "off", or "tape" or "cuda" by name. Up to `batch_limit` steps of different pictures are
    computed as one, which is quicker and equals steps computed alone within a tolerance, not bit for bit.
    `cells` says whether compiled calls answer in place of the model's own code, within the card's tolerance:
    "auto", which is also what nothing means, where they are kept; "require" or not at all; "off". With
    `mint` "background" those that are missing are compiled meanwhile.

    Raises:
        Unknown: no such card, device, extension, way to capture or way to use cells.
        Refused: the card contradicts itself, has no weights yet, does not hold in that precision, or must run
            compiled and cannot.
    """
    chosen = tuple(extension(part) if isinstance(part, str) else part for part in extensions)
    engine = Engine(
        device=device,
        precision=precision,
        extensions=chosen,
        trust_remote_code=trust_remote_code,
        capture=capture,
        batch_limit=batch_limit,
        cells=cells_for(cells, mint),
    )
    return Model(engine, engine.load(card).card)
