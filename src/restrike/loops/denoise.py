"""The denoising loop that all driven cards share: schedule, guidance, solver and experts, one step at a time.

A model supplies encode, denoise and decode as a `DiffusionModel`; the loop knows no model and keeps nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from restrike.cards.request import Arguments
from restrike.errors import Refused
from restrike.loops.contract import Forward, LoopContext, LoopOutput, Notices, StepPlan, Tensors
from restrike.loops.guidance import SCALE, GuidancePolicy, GuidanceStep, pair_of, structure_of
from restrike.loops.noise import item_generator, normal
from restrike.loops.schedule import TRAIN_TIMESTEPS, Schedule
from restrike.loops.solvers.base import Solver, SolverStep, scalar

if TYPE_CHECKING:
    import numpy as np


class DiffusionModel(Protocol):
    """What is particular to one model; all methods are functions of their arguments alone."""

    def sampler(self, context: LoopContext) -> tuple[Schedule, Solver]:
        """The schedule and solver of this request."""
        ...

    def expert(self, timestep: float) -> str:
        """The component that denoises at a timestep (0 to 1000)."""
        ...

    def latent_shape(self, context: LoopContext) -> tuple[int, ...]:
        """The latent's shape with a leading batch of 1."""
        ...

    def conditioning(self, context: LoopContext, expert: str, branch: str) -> Mapping[str, Tensor]:
        """All that one expert reads of the request in branch `cond` or `uncond`, computed once a request.

        Each tensor leads with a batch of 1; for batched guidance both branches have equal shapes.
        """
        ...

    def denoise(self, module: Any, inputs: Tensors) -> Tensor:
        """The velocity, in the latent's shape, from `latent`, `timestep` (shape 1) and the conditioning."""
        ...

    def decode(self, context: LoopContext, latent: Tensor) -> np.ndarray[Any, Any]:
        """Frames (THWC, uint8) of a clean latent."""
        ...

    def preview(self, context: LoopContext, latent: Tensor) -> np.ndarray[Any, Any]:
        """A cheaper look at an estimate of the clean latent: THWC, uint8."""
        ...


@dataclass(frozen=True, kw_only=True)
class DenoiseStep:
    """The pure computation of one step; guidance and solver work in float32, as the latent is held."""

    guidance: GuidanceStep
    solver: SolverStep

    def __call__(self, forward: Forward, inputs: Tensors) -> dict[str, Tensor]:
        """Run the branches, combine them, update the latent."""
        latent = inputs["latent"]
        branches, update = pair_of(self.guidance), self.solver.apply_guided
        if branches is not None and update is not None:
            return update(latent, *branches(forward, inputs), inputs[SCALE], inputs)
        velocity, kept = self.guidance(lambda *call: forward(*call).to(latent.dtype), inputs)
        updated = self.solver.apply(latent, velocity, inputs)
        return {"velocity": velocity, **kept, **updated}


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """All that is settled when a request begins: one entry a step."""

    sigmas: tuple[float, ...]
    timesteps: tuple[Tensor, ...]
    experts: tuple[str, ...]
    scales: Mapping[str, Tensor]
    guidance: tuple[GuidanceStep, ...]
    solver: tuple[SolverStep, ...]
    conditioning: Mapping[tuple[str, str], Mapping[str, Tensor]]


@dataclass(kw_only=True)
class DenoiseState:
    """All that a request changes: the position, the latent and the tensors that later steps read."""

    context: LoopContext
    trajectory: Trajectory
    latent: Tensor
    generator: torch.Generator
    index: int = 0
    noise: Tensor | None = None
    velocity: Tensor | None = None
    history: dict[str, Tensor] = field(default_factory=dict)
    log_probs: list[Tensor] = field(default_factory=list)


@dataclass(frozen=True)
class DenoiseLoop:
    """A driven loop over a diffusion model."""

    model: DiffusionModel

    def notices(self, arguments: Arguments) -> tuple[str, ...]:
        """What the model has to say of the request."""
        return self.model.notices(arguments) if isinstance(self.model, Notices) else ()

    def init(self, context: LoopContext) -> DenoiseState:
        """Settle the trajectory, encode the prompt, draw the picture's own noise."""
        arguments = context.arguments
        if "trajectory" not in context.shared:
            context.shared["trajectory"] = self._trajectory(context)
        trajectory = context.shared["trajectory"]
        noise = normal(
            self.model.latent_shape(context), item_generator(arguments.seed, context.item), context.device
        )
        generator = item_generator(arguments.seed, context.item, "solver")
        state = DenoiseState(context=context, trajectory=trajectory, latent=noise, generator=generator)
        self._draw(state)
        return state

    def _trajectory(self, context: LoopContext) -> Trajectory:
        arguments, device = context.arguments, context.device
        schedule, solver = self.model.sampler(context)
        sigmas = tuple(float(sigma) for sigma in schedule.sigmas)
        experts = tuple(self.model.expert(float(timestep)) for timestep in schedule.timesteps)
        scales = self._scales(arguments, experts)
        policy = GuidancePolicy(
            mode=arguments.guidance_mode,
            interval=arguments.guidance_interval,
            every=arguments.guidance_every,
        )
        guidance = policy.plan(list(sigmas[:-1]), scales, list(experts))
        branches = {
            (expert, b) for expert, step in zip(experts, guidance, strict=True) for b in step.branches
        }
        return Trajectory(
            sigmas=sigmas,
            timesteps=tuple(schedule.timesteps.to(device).split(1)),
            experts=experts,
            scales={e: scalar(s, device) for e, s in zip(experts, scales, strict=True)},
            guidance=guidance,
            solver=solver.plan(schedule, device, context.ops),
            conditioning={key: self._conditioning(context, *key) for key in sorted(branches)},
        )

    def _conditioning(self, context: LoopContext, expert: str, branch: str) -> Mapping[str, Tensor]:
        # Two experts are never needed at once.
        with context.apart():
            return self.model.conditioning(context, expert, branch)

    def _scales(self, arguments: Arguments, experts: tuple[str, ...]) -> list[float]:
        # A trajectory that begins late may never meet the noisiest expert, whose scale is the first.
        noisiest = self.model.expert(float(TRAIN_TIMESTEPS))
        first, second = arguments.guidance, arguments.guidance_2
        if first != second and self.model.expert(0.0) == noisiest:
            raise Refused(f"guidance_2 {second} has no effect: '{noisiest}' is the only expert")
        return [first if expert == noisiest else second for expert in experts]

    def next(self, state: DenoiseState) -> StepPlan | None:
        """Gather the tensors of the next step; no kernel runs."""
        path, index = state.trajectory, state.index
        if index == len(path.experts):
            return None
        guidance, solver, expert = path.guidance[index], path.solver[index], path.experts[index]
        return StepPlan(
            index=index,
            total=len(path.experts),
            sigma=path.sigmas[index],
            component=expert,
            structure=("denoise", expert, structure_of(guidance), solver.structure),
            inputs=self._inputs(state, guidance, solver, expert),
            call=self.model.denoise,
            compute=DenoiseStep(guidance=guidance, solver=solver),
        )

    def _inputs(
        self, state: DenoiseState, guidance: GuidanceStep, solver: SolverStep, expert: str
    ) -> dict[str, Tensor]:
        path = state.trajectory
        inputs = {"latent": state.latent, "timestep": path.timesteps[state.index], **solver.coefficients}
        for branch in guidance.branches:
            conditioning = path.conditioning[expert, branch]
            inputs |= {f"{branch}.{name}": value for name, value in conditioning.items()}
        if SCALE in guidance.reads:
            inputs[SCALE] = path.scales[expert]
        wanted = (*solver.history, *(name for name in guidance.reads if name != SCALE))
        inputs |= {name: state.history[name] for name in wanted}
        if state.noise is not None:
            inputs["noise"] = state.noise
        return inputs

    def advance(self, state: DenoiseState, outputs: Tensors) -> None:
        """Take the new latent and history, and draw the noise of the next step."""
        state.latent = outputs["latent"]
        state.velocity = outputs["velocity"]
        state.history = {name: value for name, value in outputs.items() if name.startswith("history.")}
        if "log_prob" in outputs:
            state.log_probs.append(outputs["log_prob"].squeeze(0))
        state.index += 1
        self._draw(state)

    def _draw(self, state: DenoiseState) -> None:
        steps = state.trajectory.solver
        stochastic = state.index < len(steps) and steps[state.index].stochastic
        shape, device = tuple(state.latent.shape), state.context.device
        state.noise = normal(shape, state.generator, device) if stochastic else None

    def preview(self, state: DenoiseState) -> np.ndarray[Any, Any]:
        """The current estimate of the clean latent, x - sigma v, as the model can show it cheaply."""
        return self.model.preview(state.context, self._clean(state))

    def conclude(self, state: DenoiseState) -> None:
        """End here: the latent becomes the current estimate of the clean one, as a preview shows it."""
        state.latent = self._clean(state)
        state.index = len(state.trajectory.experts)

    def _clean(self, state: DenoiseState) -> Tensor:
        if state.velocity is None:
            return state.latent
        return state.latent - state.trajectory.sigmas[state.index] * state.velocity

    def finalize(self, state: DenoiseState) -> LoopOutput:
        """Decode the final latent; raises Refused when it is not finite, for that is no picture."""
        if not bool(torch.isfinite(state.latent).all()):
            raise Refused(
                "the final latent holds NaN or infinity; the extension non-finite names the step at fault"
            )
        frames_THWC = self.model.decode(state.context, state.latent)
        return LoopOutput(frames_THWC=frames_THWC, latent=state.latent, log_probs=tuple(state.log_probs))
