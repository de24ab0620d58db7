"""The operation of a `generate` step: a card and its arguments, keyed by the weights that it reads.

Keying imports no torch and loads nothing; running goes through the engine like every other generation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from restrike.cards.adapters import Adapter
from restrike.cards.card import ModelCard
from restrike.cards.checkpoint import NotHere
from restrike.cards.identity import WeightStamp, adapted, files_of, stamp_of
from restrike.cards.request import Request
from restrike.errors import Refused
from restrike.keys import Digest, Ref
from restrike.settings import settings
from restrike.workflow.operations.machine import machine_identity
from restrike.workflow.operations.pinned import pinned
from restrike.workflow.operations.streaming import streamed
from restrike.workflow.values import Clip

if TYPE_CHECKING:
    from restrike.engine.engine import Engine
    from restrike.engine.events import Event
    from restrike.engine.requests import StreamOptions

EPOCH = "1"
ADAPTERS = "adapters"
# What a step says elsewhere (its seed), or what only some cards take.
_ELSEWHERE = ("seed", "call")
ARGUMENTS = (*(part.name for part in fields(Request) if part.name not in _ELSEWHERE), "count")


@dataclass(frozen=True, kw_only=True)
class Generate:
    """One card on one device, under adapters.

    `weights_now` is the identity of its weights where it runs, `cells_now` the compiled calls there.
    """

    card: ModelCard
    device: str
    precision: str
    adapters: tuple[Adapter, ...] = ()
    weights_now: Callable[[ModelCard], WeightStamp] = stamp_of
    cells_now: Callable[[], tuple[str, ...]] = tuple

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
    def stamp(self) -> WeightStamp:
        """What any of the card's loops can read, without adapters; raises NotHere, see `fetch`."""
        return self.weights_now(self.card)

    @cached_property
    def settled(self) -> tuple[Adapter, ...]:
        """The adapters with what is in their files; raises NotHere, see `fetch`."""
        return tuple(adapter.present() for adapter in self.adapters)

    @property
    def weights(self) -> str:
        """What every output is stamped with: the card's weights under the adapters."""
        return adapted(self.stamp.weights, (adapter.identity for adapter in self.settled))

    def check_unchanged(self) -> None:
        """Raise Refused when the weights are not those any more that the key says."""
        if self.weights_now(self.card) != self.stamp:
            raise Refused(
                f"the weights of card '{self.card.name}' were changed while they were used; run again"
            )

    def identity(self) -> Mapping[str, object]:
        """The kind, its epoch, the architecture, its weights, adapters, and the precision of all these."""
        stack = [part.identity for part in self.settled]
        adapters = [
            {
                "file": Ref(Digest(part.digest), of="file"),
                "strength": part.strength,
                "component": part.component,
            }
            for part in stack
        ]
        return {
            "kind": "generate",
            "epoch": EPOCH,
            "architecture": self.card.architecture,
            "weights": self.stamp.weights,
            "precision": self.precision,
            **({ADAPTERS: adapters} if adapters else {}),
        }

    def exact_identity(self) -> Mapping[str, object]:
        """The facts of the machine, and what may serve there that is only near its reference."""
        return {
            **machine_identity(self.device),
            "near_kernels": settings().kernels == "fast",
            "cells": list(self.cells_now()),
        }

    def timing_label(self, arguments: Mapping[str, Any]) -> str:
        """The card with size, frames, steps and count."""
        sizes = ("width", "height", "frames", "steps", "count", "guidance_mode")
        return " ".join([self.label, self.device, *(str(arguments.get(name)) for name in sizes)])

    def download_bytes(self) -> int | None:
        """What of checkpoint and adapters is not here yet; None when that cannot be found out now."""
        missing: list[int | None] = [adapter.source().missing_bytes() for adapter in self.adapters]
        try:
            self.stamp  # noqa: B018  (all here, so nobody need be asked)
        except NotHere:
            assert self.card.location is not None
            missing.append(self.card.location.missing_bytes(files_of(self.card)))
        known = [part for part in missing if part is not None]
        return sum(known) if len(known) == len(missing) else None

    def fetch(self) -> None:
        """Bring the weights to this machine, so that they have an identity; raises as the hub does."""
        assert self.card.location is not None
        self.card.location.resolve(("model_index.json", *files_of(self.card)))
        for adapter in self.adapters:
            adapter.source().fetch()

    def run(
        self,
        engine: Engine,
        arguments: Mapping[str, Any],
        seed: int | None,
        watch: Callable[[Event], None],
        options: StreamOptions | None = None,
    ) -> Clip | list[Clip]:
        """Generate through the engine; one clip, or a list when `count` or `items` says so."""
        given = {name: value for name, value in arguments.items() if value is not None}
        count = given.pop("count", 1)
        given.setdefault("items", range(count))
        if isinstance(given.get("image"), Clip):
            given["image"] = given["image"].frames_THWC[0]
        request = Request(**_tuples(given), seed=seed, adapters=self.settled)
        # What was synced is nowhere but in the engine.
        card = self.card if self.stamp.versions else pinned(self.card, self.stamp.weights)
        clips = streamed(engine, card, request, watch, options)
        return clips if count > 1 else clips[0]


def _tuples(arguments: dict[str, Any]) -> dict[str, Any]:
    listed = ("guidance_interval", "sigmas", "items")
    return {name: tuple(value) if name in listed else value for name, value in arguments.items()}
