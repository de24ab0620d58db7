"""Guards that fail a test when tensors are computed, or read by the host, where they must not be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from restrike.cards import registry
from restrike.cards.card import LoopSpec, ModelCard
from restrike.loops.contract import Loop, LoopContext, LoopOutput, StepPlan, Tensors


class NoKernel(TorchDispatchMode):
    """Lets no operation on tensors run."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"{func} ran where none may")


@dataclass(frozen=True)
class PlansWithoutKernels:
    """A loop of the four methods, whose plans are made where no kernel may run."""

    inner: Loop[Any]

    def init(self, context: LoopContext) -> Any:
        return self.inner.init(context)

    def next(self, state: Any) -> StepPlan | None:
        with NoKernel():
            return self.inner.next(state)

    def advance(self, state: Any, outputs: Tensors) -> None:
        self.inner.advance(state, outputs)

    def finalize(self, state: Any) -> LoopOutput:
        return self.inner.finalize(state)


def planned_without_kernels(card: ModelCard) -> ModelCard:
    """The card, fitted to its checkpoint, with every loop guarded."""

    def guarded(spec: LoopSpec) -> LoopSpec:
        return replace(spec, build=lambda checkpoint: PlansWithoutKernels(spec.build(checkpoint)))

    known = registry.fitted(card)
    return replace(known, loops=tuple(map(guarded, known.loops)), fitting=None)
