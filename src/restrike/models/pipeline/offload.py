"""Offload: weights that wait in the computer's memory and come to the device when they are used.

It moves weights and changes no result; a pipeline is offloaded in one way or not at all.
"""

from __future__ import annotations

from typing import Any

from restrike.cards.placement import Placement
from restrike.models.pipeline.options import NO_OFFLOAD, PipelineOptions


def offload_fault(offload: str, device: str) -> str | None:
    """Why it cannot be on a device; None when it can."""
    if offload == NO_OFFLOAD or not device.startswith("cpu"):
        return None
    return f"offload '{offload}' needs a GPU to bring weights to, and this runs on {device}; leave it out"


def offloaded(pipeline: Any, options: PipelineOptions, placement: Placement) -> Any:
    """The pipeline, which is on no device yet, offloaded as the options say."""
    import torch

    device = torch.device(placement.device)
    if options.offload == "model":
        pipeline.enable_model_cpu_offload(device=device)
    elif options.offload == "sequential":
        pipeline.enable_sequential_cpu_offload(device=device)
    else:
        # By leaves: blocks would need a size that suits each model.
        pipeline.enable_group_offload(
            onload_device=device, offload_type="leaf_level", use_stream=device.type == "cuda"
        )
    return pipeline
