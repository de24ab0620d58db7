"""Steps of different pictures as one forward: which may share one, how they are put together and taken apart.

The rule is `StepPlan`'s; a picture that shares no step with another is not touched by anything here.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TypeVar

import torch
from torch import Tensor

from restrike.engine.requests import PlannedStep
from restrike.loops.contract import StepPlan, Tensors

T = TypeVar("T")
TOLERANCE = 1e-5
"""How far, relative to its norm, a final float32 latent may be from that of the picture made alone.

Kernels add in another order at another batch size. That is a rounding a step; over 24 steps of `shapes` it
grew to 3e-6, and a single rounding of the initial noise grows to as much.
"""
LATENT = "latent"
"""The input whose rank the columns of numbers get; a plan without it is run alone."""


def signature(step: PlannedStep) -> Hashable | None:
    """Equal for steps that one forward can run; None for a step that runs alone.

    Alone runs what may not be batched by its request (`ReadyRequest.alone`) or by its plan, which is not
    capturable or has no latent.
    """
    plan, request = step.plan, step.request
    if request.alone:
        return None
    tensors = plan.inputs
    if not plan.capturable or LATENT not in tensors or not all(map(_leads_with_one, tensors.values())):
        return None
    shapes = tuple((name, value.shape, value.dtype, value.device) for name, value in sorted(tensors.items()))
    return (id(request.resident), plan.component, plan.structure, plan.call, shapes)


def _leads_with_one(value: Tensor) -> bool:
    return value.ndim == 0 or value.shape[0] == 1


def groups(steps: Sequence[T], signatures: Sequence[Hashable | None], limit: int) -> list[list[T]]:
    """The steps in groups of one signature and at most `limit`, in the order of their first members."""
    found: list[list[T]] = []
    open_groups: dict[Hashable, list[T]] = {}
    for step, signed in zip(steps, signatures, strict=True):
        group = open_groups.get(signed) if signed is not None else None
        if group is None or len(group) == limit:
            group = []
            found.append(group)
            open_groups[signed] = group
        group.append(step)
    return found


def stacked(plans: Sequence[StepPlan]) -> StepPlan:
    """N plans of one signature as one plan of batch N; it tells the first one's index and sigma."""
    first = plans[0]
    column = (1,) * (first.inputs[LATENT].ndim - 1)
    inputs = {name: _stacked([plan.inputs[name] for plan in plans], column) for name in first.inputs}
    return replace(first, inputs=inputs)


def _stacked(values: list[Tensor], column: tuple[int, ...]) -> Tensor:
    if values[0].ndim:
        return torch.cat(values)
    return torch.stack(values).reshape(len(values), *column)


def rows(outputs: Tensors, count: int) -> list[Tensors]:
    """The outputs of each plan; copies, so that a picture which is kept keeps no other one's memory."""
    return [{name: value[row : row + 1].clone() for name, value in outputs.items()} for row in range(count)]
