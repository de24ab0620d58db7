"""The operation of a `generate` step: a card and its arguments, keyed by the weights that it reads.

Keying imports no torch and loads nothing; running goes through the engine like every other generation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from restrike.cards.card import ModelCard
from restrike.cards.checkpoint import NotHere
from restrike.cards.identity import files_of, weights_of
from restrike.cards.request import Request
from restrike.errors import Refused
from restrike.workflow.operations.machine import machine_identity
from restrike.workflow.operations.pinned import pinned
from restrike.workflow.operations.streaming import streamed
from restrike.workflow.values import Clip

if TYPE_CHECKING:
    from restrike.engine.engine import Engine
    from restrike.engine.events import Event

EPOCH = "1"
# What a step says elsewhere (its seed) or what changes no bytes (exact).
_ELSEWHERE = ("seed", "items", "exact", "call")
ARGUMENTS = (*(part.name for part in fields(Request) if part.name not in _ELSEWHERE), "count")


@dataclass(frozen=True, kw_only=True)
class Generate:
    """One card on one device."""

    card: ModelCard
    device: str
    precision: str

    @property
    def label(self) -> str:
        """`generate shapes`."""
        return f"generate {self.card.name}"

    @property
    def reusable(self) -> bool:
        """A generation has no side effects."""
        return True

    @property
    def draws(self) -> bool:
        """All noise comes from the seed."""
        return True

    @property
    def address(self) -> str:
        """What finds the card again anywhere."""
        return self.card.address

    @cached_property
    def weights(self) -> str:
        """The identity of all weights that any of the card's loops can read; raises NotHere, see `fetch`."""
        return weights_of(self.card)

    def check_unchanged(self) -> None:
        """Raise Refused when the weights are not those any more that the key says."""
        if weights_of(self.card) != self.weights:
            raise Refused(
                f"the weights of card '{self.card.name}' were changed while they were used; run again"
            )

    def identity(self) -> Mapping[str, object]:
        """The kind, its epoch, the architecture, its weights and the precision that they are used in."""
        return {
            "kind": "generate",
            "epoch": EPOCH,
            "architecture": self.card.architecture,
            "weights": self.weights,
            "precision": self.precision,
        }

    def exact_identity(self) -> Mapping[str, object]:
        """The facts of the machine."""
        return machine_identity(self.device)

    def timing_label(self, arguments: Mapping[str, Any]) -> str:
        """The card with size, frames, steps and count."""
        sizes = ("width", "height", "frames", "steps", "count", "guidance_mode")
        return " ".join([self.label, self.device, *(str(arguments.get(name)) for name in sizes)])

    def download_bytes(self) -> int | None:
        """What of the checkpoint is not here yet; None when that cannot be found out now."""
        try:
            self.weights  # noqa: B018  (all here, so nobody need be asked)
        except NotHere:
            assert self.card.location is not None
            return self.card.location.missing_bytes(files_of(self.card))
        return 0

    def fetch(self) -> None:
        """Bring the weights to this machine, so that they have an identity; raises as the hub does."""
        assert self.card.location is not None
        self.card.location.resolve(("model_index.json", *files_of(self.card)))

    def run(
        self, engine: Engine, arguments: Mapping[str, Any], seed: int | None, watch: Callable[[Event], None]
    ) -> Clip | list[Clip]:
        """Generate through the engine; one clip, or a list when `count` says so."""
        given = {name: value for name, value in arguments.items() if value is not None}
        count = given.pop("count", 1)
        if isinstance(given.get("image"), Clip):
            given["image"] = given["image"].frames_THWC[0]
        request = Request(**_tuples(given), seed=seed, items=tuple(range(count)))
        clips = streamed(engine, pinned(self.card, self.weights), request, watch)
        return clips if count > 1 else clips[0]


def _tuples(arguments: dict[str, Any]) -> dict[str, Any]:
    listed = ("guidance_interval", "sigmas")
    return {name: tuple(value) if name in listed else value for name, value in arguments.items()}
