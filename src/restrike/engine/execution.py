"""The one place where a planned step is executed. Keeps nothing between steps."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from restrike.engine.extensions import ExtensionMemory, ForwardCall
from restrike.loops.contract import StepPlan, Tensors


def execute(plan: StepPlan, module: Any, memory: ExtensionMemory) -> Tensors:
    """Run a planned step on its denoiser."""

    def forward(branch: str, inputs: Tensors) -> Tensor:
        run = lambda: plan.call(module, inputs)  # noqa: E731
        if not memory.extensions:
            return run()
        return memory.forward(ForwardCall(plan=plan, branch=branch, inputs=inputs), run)

    return plan.compute(forward, plan.inputs)
