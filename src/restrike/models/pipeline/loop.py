"""The loop of a pipeline: its call runs on a thread that stands still at every step.

The pipeline's mathematics are its own; all that changes during a request is in its run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from restrike.errors import Refused
from restrike.loops.contract import LoopContext, LoopOutput, StepPlan, Tensors
from restrike.loops.noise import item_generator
from restrike.models.pipeline.adapters import adapted_copy
from restrike.models.pipeline.call import STEP_END, Signature, call_arguments, playback_fps, signature_of
from restrike.models.pipeline.card import PIPELINE
from restrike.models.pipeline.folder import PipelineFolder
from restrike.models.pipeline.output import frames_of, sound_of
from restrike.models.pipeline.paused import LoopBegun, PausedCall, Returned, StepDone, Stop
from restrike.models.pipeline.preview import picture_of_latent
from restrike.models.pipeline.progress import bar_of
from restrike.models.pipeline.scope import pipelines_in, request_scoped

_ADAPTED = "adapted pipeline"


@dataclass(kw_only=True)
class PipelineRun:
    """One picture on its way.

    `total` is how many steps the pipeline has announced. `ahead` says that the next step has run before it
    was planned. `latent` is what the last step left, `aspect` the height over width of a still.
    """

    call: PausedCall
    pipeline: Any
    fps: float | None
    aspect: float | None
    done: int = 0
    total: int = 1
    ahead: bool = False
    latent: Tensor | None = None
    returned: Returned | None = None

    def go_on(self) -> Stop:
        """Let the call run to its next stop and take note of it."""
        stop = self.call.go_on()
        if isinstance(stop, LoopBegun):
            self.total = self.done + (stop.total or 1)
        elif isinstance(stop, StepDone):
            self.latent, self.ahead = stop.latent, True
            self.total = max(self.total, self.done + 1)
        else:
            self.returned = stop
        return stop

    def finish_step(self) -> Tensor:
        """Run what is left of the next step; its latent, empty when the pipeline shows none."""
        while not self.ahead and self.returned is None:
            self.go_on()
        self.ahead = False
        return torch.empty(0) if self.latent is None else self.latent


@dataclass(frozen=True)
class PipelineLoop:
    """Drives the pipeline of one checkpoint; it holds nothing of a request."""

    folder: PipelineFolder
    signature: Signature = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "signature", signature_of(self.folder))

    def init(self, context: LoopContext) -> PipelineRun:
        """Call the pipeline and let it encode the prompt, up to the beginning of its steps.

        Raises:
            Refused: it does not take what was asked for, or rejects the values.
        """
        asked = context.arguments
        arguments = call_arguments(self.signature, asked)
        arguments["generator"] = item_generator(asked.seed, context.item)
        pipeline = self._pipeline(context)
        call = PausedCall(
            lambda call: _called(call, pipeline, arguments, self.signature), f"{PIPELINE}-{context.item}"
        )
        run = PipelineRun(
            call=call,
            pipeline=pipeline,
            fps=playback_fps(self.signature, asked),
            aspect=None if self.signature.home("frames") else asked.height / asked.width,
        )
        try:
            run.go_on()
        except (ValueError, TypeError) as error:
            # Up to here the pipeline has checked its inputs and encoded them.
            reason = " ".join(str(error).split())
            raise Refused(f"{self.folder.name} refuses the request: {reason}") from error
        except BaseException:
            call.abandon()
            raise
        return run

    def _pipeline(self, context: LoopContext) -> Any:
        """The loaded pipeline for this request, with its adapters in modules of its own."""
        loaded = context.component(PIPELINE)
        if not context.arguments.adapters:
            return request_scoped(loaded)
        if _ADAPTED not in context.shared:
            context.shared[_ADAPTED] = adapted_copy(loaded, context.arguments.adapters)
        return request_scoped(context.shared[_ADAPTED])

    def next(self, state: PipelineRun) -> StepPlan | None:
        """The next step. After the last one announced, the call runs on: it decodes, or begins more steps."""
        while state.done >= state.total and not state.ahead and state.returned is None:
            state.go_on()
        if state.returned is not None and not state.ahead and state.done > 0:
            return None
        return StepPlan(
            index=state.done,
            total=state.total,
            sigma=_sigma(state),
            component=PIPELINE,
            structure=(PIPELINE, self.folder.name),
            inputs={},
            call=lambda module, inputs: state.finish_step(),
            compute=lambda forward, inputs: {"latent": forward(PIPELINE, inputs)},
        )

    def advance(self, state: PipelineRun, outputs: Tensors) -> None:
        """Count the step."""
        state.done += 1

    def finalize(self, state: PipelineRun) -> LoopOutput:
        """The pictures and the sound that the call returned."""
        assert state.returned is not None
        output = state.returned.value
        frames_THWC = frames_of(output, self.folder.name)
        audio_CN, sample_rate_hz = sound_of(output, state.pipeline)
        return LoopOutput(
            frames_THWC=frames_THWC,
            latent=state.latent,
            audio_CN=audio_CN,
            sample_rate_hz=sample_rate_hz,
            fps=state.fps if len(frames_THWC) > 1 else None,
        )

    def preview(self, state: PipelineRun) -> np.ndarray[Any, Any] | None:
        """The latent in false colours; None when the pipeline shows none that is a grid."""
        return None if state.latent is None else picture_of_latent(state.latent, state.aspect)

    def abandon(self, state: PipelineRun) -> None:
        """Unwind the call; its thread is gone afterwards."""
        state.call.abandon()


def _called(call: PausedCall, pipeline: Any, arguments: dict[str, Any], signature: Signature) -> Any:
    """The body of the thread: the pipeline's call, with a stop at each of its steps."""

    def step_end(_: Any, index: int, timestep: Any, tensors: dict[str, Any]) -> dict[str, Any]:
        latent = tensors.get("latents")
        call.pause(StepDone(latent if isinstance(latent, Tensor) else None))
        return tensors

    watched = {STEP_END: step_end} if STEP_END in signature.parameters else {}
    for part in pipelines_in(pipeline):
        part.progress_bar = bar_of(part, call, counts=not watched)
    return pipeline(**arguments, **watched)


def _sigma(state: PipelineRun) -> float:
    """How noisy the next step begins, 1 to 0: its timestep of the training range, if the scheduler tells."""
    scheduler = getattr(state.pipeline, "scheduler", None)
    timesteps = getattr(scheduler, "timesteps", None)
    position = state.done - state.total
    if scheduler is None or timesteps is None or len(timesteps) < -position:
        return 1 - state.done / state.total
    return float(timesteps[position]) / scheduler.config.get("num_train_timesteps", 1000)
