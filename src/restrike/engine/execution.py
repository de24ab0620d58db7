"""The one place where a planned step is executed: by a captured graph where one is armed, else by itself.

Each forward of the denoiser in it is answered by compiled code where a cell is armed, else eagerly. Keeps
nothing between steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from restrike.engine.capture.counters import Break
from restrike.engine.capture.request import RequestCapture, run_for
from restrike.engine.compiled.request import RequestCompiled, forward_for, marked, settle
from restrike.engine.extensions import ExtensionMemory, ForwardCall, altering, intercepting
from restrike.loops.contract import StepPlan, Tensors


def execute(
    plan: StepPlan,
    module: Any,
    memory: ExtensionMemory,
    captures: Sequence[RequestCapture] = (),
    compiled: Sequence[RequestCompiled] = (),
) -> Tensors:
    """Run a planned step on its denoiser.

    `captures` and `compiled` are those of the requests whose step this is, several when their steps run as
    one; without any, as for a loop whose steps are opaque, the step runs as it is.

    Raises:
        Refused: a loop must be captured, or a card must run compiled, and this step cannot.
    """

    def forward(branch: str, inputs: Tensors) -> Tensor:
        run = lambda: forward_for(compiled, plan, module, inputs)  # noqa: E731
        if not memory.extensions:
            return run()
        return memory.forward(ForwardCall(plan=plan, branch=branch, inputs=inputs), run)

    def step(inputs: Tensors) -> Tensors:
        # A capture runs a step again and again; the first time is what the request gets.
        for each in compiled:
            each.begin_run()
        return plan.compute(forward, inputs)

    for each in compiled:
        each.begin_step()
    if not captures:
        return step(plan.inputs)
    known, answered = marked(compiled, plan), _answered(memory)
    outputs = run_for(captures, known, module, step, answered)
    settle(compiled, known, may_replay=answered is None)
    return outputs


def _answered(memory: ExtensionMemory) -> Break | None:
    """That an extension may answer in place of the model; a graph would answer without asking it."""
    if not memory.extensions:
        return None
    altered = altering(memory.extensions)
    if altered:
        return Break(kind="step cache", detail=altered[0])
    answering = intercepting(memory.extensions)
    return Break(kind="overridden by interceptor", detail=answering[0]) if answering else None
