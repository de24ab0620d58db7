"""The driven-loop contract between a model and the engine.

A loop plans, the engine executes. All that changes during a request lives in the state that `init` returns.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

from restrike.cards.request import Arguments
from restrike.loops.ops import TORCH_OPS, StepOps

if TYPE_CHECKING:
    import numpy as np

Tensors = Mapping[str, Tensor]
Forward = Callable[[str, Tensors], Tensor]
"""Runs the step's denoiser for one guidance branch on named tensors; the engine supplies it."""


class Features(Protocol):
    """Keeps what an encoder made of a text, for later requests."""

    def __call__(self, component: str, parts: tuple[Any, ...], make: Callable[[], Tensors]) -> Tensors:
        """What `make` gives, or gave before for the same weights of `component` and equal `parts`.

        `parts` name all that decides the result beside the weights: the text, and how it is tokenized.
        """
        ...


def computed(component: str, parts: tuple[Any, ...], make: Callable[[], Tensors]) -> Tensors:
    """Keeps nothing: the features of a loop that is driven without an engine."""
    return make()


@dataclass(frozen=True, kw_only=True)
class LoopContext:
    """What a loop may read of one picture of one request.

    `item` is the index of the picture; `component` gives a loaded component of the card by name, building
    it on first use; `shared` is memory for what all pictures of the request have in common (the encoded
    prompt), filled by whoever needs it first; `features` outlive the request. `apart` gives a context for
    work whose components may leave the device when it ends, though the call that it is part of goes on.
    `ops` are what steps compute with.
    """

    arguments: Arguments
    item: int
    device: torch.device
    component: Callable[[str], Any]
    shared: dict[str, Any] = field(default_factory=dict)
    features: Features = computed
    apart: Callable[[], AbstractContextManager[Any]] = nullcontext
    ops: StepOps = TORCH_OPS


@dataclass(frozen=True, kw_only=True)
class StepPlan:
    """One step, planned and not yet run.

    `inputs` are all tensors that the step reads, under flat dotted names; what varies between steps (latent,
    timestep, sigma, guidance scale, noise) is a tensor, a scalar being 0-d. `compute` is a pure function of
    them: it calls the given forward once for each guidance branch and returns named tensors. `call` is how
    this model's denoiser is called with the tensors of one branch. `structure` is everything else that
    decides which kernels run: plans of one structure compute the same function. `component` names the
    denoiser, so an expert switch is a change of it. A step that draws on the host or branches on data is not
    `capturable`.

    Every tensor leads with the batch, which is 1 as planned; a 0-d input is a number of the request. So the
    engine may run N plans of one structure as one: tensors are concatenated, a 0-d input becomes a column
    (N, 1, ..., 1) of the latent's rank, and output n is row n of each output.
    """

    index: int
    total: int
    sigma: float
    component: str
    structure: tuple[Hashable, ...]
    inputs: Tensors
    call: Callable[[Any, Tensors], Tensor]
    compute: Callable[[Forward, Tensors], Tensors]
    capturable: bool = True


@dataclass(frozen=True, kw_only=True)
class LoopOutput:
    """What a finished loop hands out.

    `frames_THWC` is uint8 RGB. `latent` is the final latent, before decoding. `log_probs` holds one 0-d
    tensor a stochastic step, none otherwise. `audio_CN` is float32 in -1 to 1 at `sample_rate_hz`.
    """

    frames_THWC: np.ndarray[Any, Any]
    latent: Tensor | None = None
    log_probs: tuple[Tensor, ...] = ()
    audio_CN: np.ndarray[Any, Any] | None = None
    sample_rate_hz: int | None = None
    fps: float | None = None


S = TypeVar("S")
State = TypeVar("State", contravariant=True)


class Loop(Protocol[S]):
    """Four methods that the engine calls: init once, then next, execute and advance, then finalize once."""

    def init(self, context: LoopContext) -> S:
        """Encode the prompt and draw the noise; the state holds all that the request will change."""
        ...

    def next(self, state: S) -> StepPlan | None:
        """Plan the next step, or None at the end. Runs no kernel and changes nothing in the state.

        The exception is an opaque loop after its last announced step: its model must run on to show whether
        it goes on or is done.
        """
        ...

    def advance(self, state: S, outputs: Tensors) -> None:
        """Take the outputs of the planned step into the state."""
        ...

    def finalize(self, state: S) -> LoopOutput:
        """Decode the result."""
        ...


@runtime_checkable
class Previews(Protocol[State]):
    """A loop that can show its picture before it is finished."""

    def preview(self, state: State) -> np.ndarray[Any, Any]:
        """A cheap look at the current estimate of the result: THWC, uint8."""
        ...


@runtime_checkable
class Concludes(Protocol[State]):
    """A loop that can end early with what it has."""

    def conclude(self, state: State) -> None:
        """Take the current estimate of the clean result as the result; there is no further step."""
        ...


@runtime_checkable
class Notices(Protocol):
    """A loop, or the model in it, that has something to say of a request that it serves none the less."""

    def notices(self, arguments: Arguments) -> tuple[str, ...]:
        """One line each, such as the words of the prompt that the model has never seen."""
        ...


@runtime_checkable
class Abandons(Protocol[State]):
    """A loop whose state holds something that must be let go when the request ends early."""

    def abandon(self, state: State) -> None:
        """Let it go; called at most once, instead of finalize."""
        ...
