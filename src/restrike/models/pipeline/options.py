"""How a pipeline is loaded when it is not as published: class, variant, scheduler, adapters, and so on.

Plain data: it loads nothing, and imports neither torch nor diffusers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from restrike.cards.card import ModelCard
from restrike.keys import Digest, Ref, digest
from restrike.models.pipeline.card import CARD, build_with, load_with

if TYPE_CHECKING:
    from restrike.cards.checkpoint import Checkpoint
    from restrike.cards.placement import Placement

NO_OFFLOAD = "none"
OFFLOADS = (NO_OFFLOAD, "model", "sequential", "group")


@dataclass(frozen=True, kw_only=True)
class Scheduler:
    """A diffusers scheduler class, and the options that differ from the checkpoint's own."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """A LoRA: a safetensors file with this digest, at a strength. `name` is for messages."""

    file: Path
    digest: Digest
    scale: float
    name: str


@dataclass(frozen=True, kw_only=True)
class Quantization:
    """A quantization config class, its options, and the components that it is applied to."""

    name: str
    components: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PipelineOptions:
    """What differs from the checkpoint as published; the defaults change nothing.

    `pipeline` is a diffusers class in place of the index's; `without` are components that are left out;
    `precision` is a dtype by its torch name, None for that of the placement; `weights` is the identity that
    the checkpoint must have when it is loaded, None for whatever it has.
    """

    pipeline: str | None = None
    variant: str | None = None
    without: tuple[str, ...] = ()
    precision: str | None = None
    scheduler: Scheduler | None = None
    adapters: tuple[Adapter, ...] = ()
    quantization: Quantization | None = None
    offload: str = NO_OFFLOAD
    attention: str | None = None
    weights: str | None = None

    @property
    def held_as_published(self) -> bool:
        """Whether the device gets all weights of the checkpoint, in the dtype of the placement."""
        altered = self.without or self.precision or self.quantization or self.offload != NO_OFFLOAD
        return not altered

    def weight_parts(self) -> dict[str, object]:
        """What decides the loaded weights: two pipelines that agree in it can share them."""
        quantization = self.quantization
        return {
            "pipeline": self.pipeline,
            "weights": self.weights,
            "variant": self.variant,
            "without": sorted(self.without),
            "precision": self.precision,
            "quantization": None
            if quantization is None
            else {
                "class": quantization.name,
                "components": sorted(quantization.components),
                "options": quantization.options,
            },
        }

    def identity(self) -> dict[str, object]:
        """All that decides what the loaded pipeline makes; where files lie and how they are called does not.

        Offload is not in it: it moves weights and computes the same on the same device.
        """
        scheduler = self.scheduler
        return self.weight_parts() | {
            "scheduler": None
            if scheduler is None
            else {"class": scheduler.name, "options": scheduler.options},
            "loras": [{"file": Ref(part.digest, of="file"), "scale": part.scale} for part in self.adapters],
            "attention": self.attention,
        }


AS_PUBLISHED = PipelineOptions()


@dataclass(frozen=True)
class _Loading:
    """Loads a component with options; equal to one that loads the same, wherever its files lie."""

    what: str
    options: PipelineOptions = field(compare=False)

    def __call__(self, checkpoint: Checkpoint, placement: Placement) -> Any:
        return load_with(self.options, checkpoint, placement)


@dataclass(frozen=True)
class _Building:
    """Builds a loop with options, and is equal as `_Loading` is."""

    what: str
    options: PipelineOptions = field(compare=False)

    def __call__(self, checkpoint: Checkpoint) -> Any:
        return build_with(self.options, checkpoint)


def card_with(options: PipelineOptions) -> ModelCard:
    """The pipeline card that loads with these options; it still needs a location.

    Cards of options that load the same are equal, so an engine loads them once.
    """
    what = digest("pipeline-loading", "1", options.identity() | {"offload": options.offload}).hex
    (component,), (loop,) = CARD.components, CARD.loops
    return replace(
        CARD,
        components=(
            replace(component, load=_Loading(what, options), sized_by_files=options.held_as_published),
        ),
        loops=(replace(loop, build=_Building(what, options)),),
    )
