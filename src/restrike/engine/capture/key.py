"""What decides whether a graph may answer for a step: everything that the step reads, one field a part.

A part that is missing here is a wrong replay somewhere; tests take each away in turn.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import torch
from torch import Tensor

from restrike.engine.capture.backend import Backend
from restrike.engine.capture.contents import Contents, Place
from restrike.engine.capture.numerics import numerics
from restrike.loops.contract import StepPlan, Tensors

MODULE_CHANGED = "module changed"
Layout = tuple[str, torch.Size, tuple[int, ...], torch.dtype, torch.device]


@dataclass(frozen=True, kw_only=True)
class Signature:
    """What settles the kernels of a step.

    `backend` is its name, device kind, device index and architecture; `scope` the card and loop; `inputs`
    the layout of each tensor input; `structure` what the plan says of guidance, solver and the like;
    `numerics` the switches of the process.
    """

    backend: tuple[Hashable, ...]
    scope: tuple[str, ...]
    component: str
    inputs: tuple[Layout, ...]
    structure: tuple[Hashable, ...]
    numerics: tuple[Hashable, ...]


@dataclass(frozen=True, kw_only=True)
class CaptureKey:
    """A signature, and the very module that it was captured on.

    `storages` places each parameter and buffer, `code` names the module's parts, hooks and mode;
    `weights_version` is None unless the backend folds values.
    """

    signature: Signature
    storages: tuple[Place, ...]
    code: tuple[Hashable, ...]
    weights_version: Hashable = None

    def stale_against(self, now: CaptureKey) -> str | None:
        """Why a graph of this key cannot answer for `now`, which has the same signature; None if it can."""
        if self.code != now.code:
            return MODULE_CHANGED
        if self.storages != now.storages:
            return "weights replaced"
        return "weights synced" if self.weights_version != now.weights_version else None


def signature_of(backend: Backend, scope: tuple[str, ...], plan: StepPlan) -> Signature:
    """The signature of a planned step."""
    return Signature(
        backend=(backend.name, *backend.identity),
        scope=scope,
        component=plan.component,
        inputs=layouts(plan.inputs),
        structure=plan.structure,
        numerics=numerics(backend.device),
    )


def key_of(signature: Signature, contents: Contents, weights_version: Hashable) -> CaptureKey:
    """The key of a step on a module as it is now."""
    return CaptureKey(
        signature=signature,
        storages=contents.storages,
        code=contents.code,
        weights_version=weights_version,
    )


def layouts(inputs: Tensors) -> tuple[Layout, ...]:
    """Name, shape, stride, dtype and device of each input, by name."""
    return tuple((name, *_layout(inputs[name])) for name in sorted(inputs))


def _layout(tensor: Tensor) -> tuple[torch.Size, tuple[int, ...], torch.dtype, torch.device]:
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.device
