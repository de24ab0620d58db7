"""The operation of a `pipeline` step: a diffusers pipeline with its loading options, called whole.

Keying imports no torch and loads nothing; running goes through the engine like every other generation.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from restrike.cards.card import ModelCard
from restrike.cards.checkpoint import Location, NotHere
from restrike.cards.identity import weights_of
from restrike.cards.lora_source import LoraSource
from restrike.cards.request import Request
from restrike.keys import file_digest
from restrike.models.pipeline.card import CARD, FILES
from restrike.models.pipeline.options import Adapter, PipelineOptions, card_with
from restrike.workflow.operations.machine import machine_identity
from restrike.workflow.operations.pinned import pinned
from restrike.workflow.operations.streaming import streamed
from restrike.workflow.values import Clip

if TYPE_CHECKING:
    from restrike.engine.engine import Engine
    from restrike.engine.events import Event
    from restrike.engine.requests import StreamOptions

EPOCH = "1"
COUNT = "count"
_LIBRARIES = ("diffusers", "transformers", "peft", "torchao", "bitsandbytes", "optimum-quanto")
_SIZES = ("width", "height", "num_frames", "num_inference_steps", COUNT)


@dataclass(frozen=True, kw_only=True)
class PipelineCall:
    """One checkpoint, loaded in one way. `options` has neither weights nor adapters: they are looked up."""

    location: Location
    pipeline: str
    options: PipelineOptions
    loras: tuple[LoraSource, ...]
    device: str

    @property
    def label(self) -> str:
        """`pipeline FluxPipeline`."""
        return f"pipeline {self.pipeline}"

    @property
    def reusable(self) -> bool:
        """A generation has no side effects."""
        return True

    @property
    def draws(self) -> bool:
        """All noise comes from the seed."""
        return True

    @cached_property
    def loading(self) -> PipelineOptions:
        """The options with what the files hold; raises NotHere, see `fetch`."""
        adapters = tuple(
            Adapter(file=file, digest=file_digest(file), scale=source.scale, name=source.name)
            for source in self.loras
            for file in (source.file(),)
        )
        weights = weights_of(replace(CARD, location=self.location))
        return replace(self.options, weights=weights, adapters=adapters)

    def identity(self) -> Mapping[str, object]:
        """The kind, its epoch, the weights, and how they are loaded: all but where the weights wait."""
        return {"kind": "pipeline", "epoch": EPOCH, **self.loading.identity(), "pipeline": self.pipeline}

    def exact_identity(self) -> Mapping[str, object]:
        """The facts of the machine, the libraries, and what changes only how the work is laid out."""
        return {
            **machine_identity(self.device),
            "offload": self.options.offload,
            # What diffusers takes where a step names none.
            "attention": os.environ.get("DIFFUSERS_ATTN_BACKEND"),
            "libraries": {name: _version(name) for name in _LIBRARIES},
        }

    def timing_label(self, arguments: Mapping[str, Any]) -> str:
        """The class with the sizes that the call says."""
        return " ".join([self.label, self.device, *(str(arguments.get(name)) for name in _SIZES)])

    def download_bytes(self) -> int | None:
        """What is not here yet; None when that cannot be found out now."""
        try:
            weights_of(replace(CARD, location=self.location))
            missing: int | None = 0
        except NotHere:
            missing = self.location.missing_bytes(FILES)
        parts = [missing, *(source.missing_bytes() for source in self.loras)]
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None

    def fetch(self) -> None:
        """Bring the weights to this machine, so that they have an identity; raises as the hub does."""
        self.location.resolve(FILES)
        for source in self.loras:
            source.fetch()

    def card(self) -> ModelCard:
        """The card that loads what was keyed, and nothing else."""
        loading = self.loading
        assert loading.weights is not None
        return pinned(replace(card_with(loading), location=self.location), loading.weights)

    def run(
        self,
        engine: Engine,
        arguments: Mapping[str, Any],
        seed: int | None,
        watch: Callable[[Event], None],
        options: StreamOptions | None = None,
    ) -> Clip | list[Clip]:
        """Call the pipeline through the engine; one clip, or a list when `count` says so."""
        given = {name: _called_with(value) for name, value in arguments.items() if value is not None}
        count = given.pop(COUNT, 1)
        request = Request(prompt="", seed=seed, items=tuple(range(count)), call=given)
        clips = streamed(engine, self.card(), request, watch, options)
        return clips if count > 1 else clips[0]


def _called_with(value: Any) -> Any:
    """A value as a pipeline takes it: a still as a picture, a clip as a list of them."""
    if isinstance(value, Clip):
        from PIL import Image

        frames = [Image.fromarray(frame_HWC).convert("RGB") for frame_HWC in value.frames_THWC]
        return frames[0] if value.is_still else frames
    if isinstance(value, Mapping):
        return {name: _called_with(part) for name, part in value.items()}
    return [_called_with(part) for part in value] if isinstance(value, list | tuple) else value


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
