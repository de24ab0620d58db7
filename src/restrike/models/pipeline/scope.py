"""A pipeline of one request: shares the weights of the loaded one and nothing that a call changes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch


def request_scoped(pipeline: Any) -> Any:
    """A copy that can be called while other copies stand in the middle of a call.

    A call writes to its scheduler and its guider, to attributes of the pipeline (`_guidance_scale`,
    `_num_timesteps`, ...) and, in a combined pipeline, to those of the pipelines inside it: all of these are
    the copy's own. Models and tokenizers are the loaded pipeline's.
    """
    return _copied(pipeline, {})


def pipelines_in(pipeline: Any) -> Iterator[Any]:
    """The pipeline itself and those that a combined pipeline holds."""
    from diffusers.pipelines.pipeline_utils import DiffusionPipeline

    yield pipeline
    for value in list(vars(pipeline).values()):
        if isinstance(value, DiffusionPipeline):
            yield from pipelines_in(value)


def structural_copy(pipeline: Any) -> None:
    """Give a request-scoped pipeline modules of its own, which share every tensor with those it had.

    What is then injected into its modules, or set on them, is not seen by any other pipeline.
    """
    tensors: dict[int, Any] = {}
    parts = list(pipelines_in(pipeline))
    for module in (value for part in parts for value in vars(part).values()):
        if isinstance(module, torch.nn.Module):
            tensors |= {id(tensor): tensor for tensor in (*module.parameters(), *module.buffers())}
    for part in parts:
        own = {
            name: copy.deepcopy(value, tensors)
            for name, value in vars(part).items()
            if isinstance(value, torch.nn.Module)
        }
        vars(part).update(own)


def _copied(value: Any, copies: dict[int, Any]) -> Any:
    # `copies` keeps one copy of each original, so that a scheduler which two pipelines share stays shared.
    from diffusers.configuration_utils import ConfigMixin
    from diffusers.pipelines.pipeline_utils import DiffusionPipeline

    if id(value) in copies:
        return copies[id(value)]
    if isinstance(value, DiffusionPipeline):
        own = copies[id(value)] = copy.copy(value)
        # Not by setattr, which would rewrite the pipeline's configuration.
        vars(own).update({name: _copied(part, copies) for name, part in vars(value).items()})
        return own
    # Schedulers, guiders and processors are what diffusers configures beside models.
    if isinstance(value, ConfigMixin) and not isinstance(value, torch.nn.Module):
        copies[id(value)] = copy.deepcopy(value)
    elif type(value) in (list, dict, set):
        copies[id(value)] = copy.copy(value)
    return copies.get(id(value), value)
