"""The card of every checkpoint that no driven card serves: the pipeline that its index names, as published.

It imports no torch; what is left open by a request is left to the pipeline, so all defaults here are nominal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from restrike.cards.card import (
    Axis,
    Component,
    Geometry,
    LoopSpec,
    ModelCard,
    Recipe,
    SamplingDefaults,
    Task,
)
from restrike.cards.checkpoint import Checkpoint
from restrike.cards.placement import Placement

if TYPE_CHECKING:
    from restrike.models.pipeline.options import PipelineOptions

PIPELINE = "pipeline"

# All that decides a pipeline's output. Pickled weights are left out because they are never read.
FILES = (
    "model_index.json",
    "*.py",
    "*/*.json",
    "*/*.safetensors",
    "*/*.txt",
    "*/*.model",
    "*/*.jinja",
    "*/*.tiktoken",
    "*/*.bpe",
    "*/*.spm",
    "*/*.py",
)


def load_with(options: PipelineOptions, checkpoint: Checkpoint, placement: Placement) -> Any:
    """The pipeline of a checkpoint, loaded with options."""
    from restrike.models.pipeline.loading import load

    return load(checkpoint, placement, options)


def build_with(options: PipelineOptions, checkpoint: Checkpoint) -> Any:
    """The loop of a pipeline that is loaded with options."""
    from restrike.models.pipeline.folder import read
    from restrike.models.pipeline.loop import PipelineLoop

    return PipelineLoop(read(checkpoint, options))


def _load(checkpoint: Checkpoint, placement: Placement) -> Any:
    from restrike.models.pipeline.options import AS_PUBLISHED

    return load_with(AS_PUBLISHED, checkpoint, placement)


def _build(checkpoint: Checkpoint) -> Any:
    from restrike.models.pipeline.options import AS_PUBLISHED

    return build_with(AS_PUBLISHED, checkpoint)


CARD = ModelCard(
    name=PIPELINE,
    description="Any published diffusers pipeline, called whole",
    architecture="diffusers",
    license="that of the checkpoint",
    components=(Component(name=PIPELINE, load=_load, files=FILES),),
    loops=(LoopSpec(name=PIPELINE, tasks=tuple(Task), components=(PIPELINE,), build=_build, opaque=True),),
    defaults=SamplingDefaults(width=512, height=512, steps=50, fps=16.0),
    geometry=Geometry(
        width=Axis(minimum=1, maximum=16384),
        height=Axis(minimum=1, maximum=16384),
        frames=Axis(minimum=1, maximum=16384),
    ),
    recipe=Recipe(method="as published", loop=PIPELINE),
    precisions=("float32", "bfloat16", "float16"),
    libraries=("diffusers", "transformers"),
    takes_call_arguments=True,
)
