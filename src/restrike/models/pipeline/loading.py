"""Loads the pipeline of a checkpoint onto a placement: safetensors only, from the folder only.

It leaves every setting of diffusers and transformers as it was.
"""

from __future__ import annotations

from typing import Any

import torch

from restrike.cards.checkpoint import Checkpoint
from restrike.cards.identity import combined, identity_of
from restrike.cards.placement import Placement
from restrike.errors import Refused
from restrike.models.libraries import libraries
from restrike.models.pipeline.adapters import with_adapters
from restrike.models.pipeline.attention import with_attention
from restrike.models.pipeline.card import CARD
from restrike.models.pipeline.folder import PipelineFolder, read
from restrike.models.pipeline.offload import offload_fault, offloaded
from restrike.models.pipeline.options import AS_PUBLISHED, NO_OFFLOAD, PipelineOptions
from restrike.models.pipeline.quantizing import quantization_config
from restrike.models.pipeline.schedulers import with_scheduler
from restrike.models.pipeline.scope import request_scoped, structural_copy
from restrike.models.pipeline.shared import shared_weights


@libraries("pipeline")
def load(checkpoint: Checkpoint, placement: Placement, options: PipelineOptions = AS_PUBLISHED) -> Any:
    """The checkpoint's `DiffusionPipeline`, every module in eval mode.

    Pipelines that differ only in scheduler, adapters or attention share the tensors of their weights.

    Raises:
        NotFound: a file is missing.
        Refused: the folder is not one that may be loaded (see `folder.read`), its weights are not those that
            are asked for, diffusers rejects it, or an option does not apply to it.
    """
    fault = offload_fault(options.offload, placement.device)
    if fault:
        raise Refused(fault)
    folder = read(checkpoint, options)
    if options.offload != NO_OFFLOAD:
        # Hooks move the weights of one pipeline, so it shares them with no other.
        return offloaded(_altered(_read(folder, placement, options), options, checkpoint), options, placement)
    if options.weights is None:
        return _altered(_onto(_read(folder, placement, options), placement), options, checkpoint)
    weights = shared_weights(
        options.weight_parts() | {"device": placement.device, "dtype": placement.dtype},
        lambda: _onto(_read(folder, placement, options), placement),
    )
    own = request_scoped(weights.pipeline)
    if options.adapters or options.attention:
        structural_copy(own)
    # Not one of the pipeline's parts: it only keeps the shared weights alive.
    vars(own)["_shared_weights"] = weights
    return _altered(own, options, checkpoint)


def _altered(pipeline: Any, options: PipelineOptions, checkpoint: Checkpoint) -> Any:
    if options.scheduler is not None:
        with_scheduler(pipeline, options.scheduler)
    if options.adapters:
        with_adapters(pipeline, options.adapters)
    if options.attention is not None:
        with_attention(pipeline, options.attention, code_trusted=checkpoint.code_trusted)
    return pipeline


def _onto(pipeline: Any, placement: Placement) -> Any:
    return pipeline.to(torch.device(placement.device))


def _read(folder: PipelineFolder, placement: Placement, options: PipelineOptions) -> Any:
    checkpoint = folder.checkpoint
    chosen: dict[str, Any] = dict.fromkeys(options.without)
    if options.quantization is not None:
        chosen["quantization_config"] = quantization_config(checkpoint, options.quantization)
    try:
        pipeline = _from(folder, options).from_pretrained(
            str(checkpoint.root),
            dtype=getattr(torch, options.precision or placement.dtype),
            variant=folder.variant,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=checkpoint.code_trusted,
            **chosen,
        )
    except (OSError, ValueError, ImportError, AttributeError, KeyError, TypeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        reason = " ".join(str(error).split())
        raise Refused(f"checkpoint '{checkpoint.name}' does not load as {folder.name}: {reason}") from error
    if options.weights is not None and _weights_of(checkpoint) != options.weights:
        raise Refused(f"checkpoint '{checkpoint.name}' was changed while it was used; run it again")
    return pipeline


def _from(folder: PipelineFolder, options: PipelineOptions) -> Any:
    from diffusers.pipelines.pipeline_utils import DiffusionPipeline

    return DiffusionPipeline if options.pipeline is None else folder.pipeline


def _weights_of(checkpoint: Checkpoint) -> str:
    return combined(identity_of(part, checkpoint) for part in CARD.components)
