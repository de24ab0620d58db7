"""Euler and UniPC against diffusers' schedulers: equal bit for bit on the same sigmas and velocities."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from restrike.loops.schedule import Schedule
from restrike.loops.solvers.base import Solver, SolverStep
from restrike.loops.solvers.euler import Euler
from restrike.loops.solvers.unipc import UniPC

CPU = torch.device("cpu")
STEPS = (1, 2, 3, 5, 8, 20, 50)
SHIFTS = (1.0, 3.0, 12.0)
SHAPE = (1, 4, 2, 3, 5)


def noise(count: int, seed: int = 3) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(SHAPE, generator=generator) for _ in range(count)]


def driven(plan: tuple[SolverStep, ...], latent: Tensor, velocities: list[Tensor]) -> list[Tensor]:
    """All latents of a trajectory, with the history handed on as the denoising loop does."""
    history: dict[str, Tensor] = {}
    latents = []
    for step, velocity in zip(plan, velocities, strict=True):
        inputs = {**step.coefficients, **{name: history[name] for name in step.history}}
        outputs = step.apply(latent, velocity, inputs)
        latent = outputs["latent"]
        history = {name: value for name, value in outputs.items() if name.startswith("history.")}
        latents.append(latent)
    return latents


def reference(scheduler: Any, latent: Tensor, velocities: list[Tensor]) -> list[Tensor]:
    scheduler.set_begin_index(0)
    latents = []
    for timestep, velocity in zip(scheduler.timesteps, velocities, strict=True):
        latent = scheduler.step(velocity, timestep, latent, return_dict=False)[0]
        latents.append(latent)
    return latents


def both(scheduler: Any, solver: Solver, steps: int) -> tuple[list[Tensor], list[Tensor]]:
    """Our latents and those of diffusers."""
    scheduler.set_timesteps(steps)
    schedule = Schedule(sigmas=scheduler.sigmas, timesteps=scheduler.timesteps)
    start, *velocities = noise(steps + 1)
    plan = solver.plan(schedule, CPU)
    return driven(plan, start, velocities), reference(scheduler, start, velocities)


def flow_unipc(**settings: Any) -> Any:
    from diffusers import UniPCMultistepScheduler

    return UniPCMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True, **settings)


@pytest.mark.parametrize("shift", SHIFTS)
def test_euler(shift: float) -> None:
    from diffusers import FlowMatchEulerDiscreteScheduler

    for steps in STEPS:
        ours, theirs = both(FlowMatchEulerDiscreteScheduler(shift=shift), Euler(), steps)
        assert all(map(torch.equal, ours, theirs)), steps


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("final", ["zero", "sigma_min"])
@pytest.mark.parametrize("kind", ["bh1", "bh2"])
def test_unipc(kind: str, final: str, order: int, shift: float) -> None:
    for steps in STEPS:
        scheduler = flow_unipc(
            solver_type=kind, final_sigmas_type=final, solver_order=order, flow_shift=shift
        )
        ours, theirs = both(scheduler, UniPC(order=order, kind=kind), steps)
        if kind == "bh1" and final == "zero":
            # The last step of diffusers multiplies infinity by zero; ours is the limit.
            assert theirs.pop().isnan().all()
            assert ours.pop().isfinite().all()
        assert all(map(torch.equal, ours, theirs)), steps


@pytest.mark.parametrize("order", [2, 3])
def test_unipc_with_its_order_kept_to_the_end(order: int) -> None:
    scheduler = flow_unipc(solver_order=order, lower_order_final=False, final_sigmas_type="sigma_min")
    ours, theirs = both(scheduler, UniPC(order=order, lower_order_final=False), 8)
    # Its last step goes nowhere, where only order 1 is finite.
    assert all(map(torch.equal, ours[:-1], theirs[:-1]))


def test_unipc_without_its_corrector_at_some_steps() -> None:
    scheduler = flow_unipc(disable_corrector=[0, 3])
    ours, theirs = both(scheduler, UniPC(uncorrected=(0, 3)), 8)
    assert all(map(torch.equal, ours, theirs))


def off_by_one_ulp(plan: tuple[SolverStep, ...], name: str) -> tuple[SolverStep, ...]:
    return tuple(
        replace(
            step, coefficients={**step.coefficients, name: step.coefficients[name].nextafter(torch.ones(()))}
        )
        if name in step.coefficients
        else step
        for step in plan
    )


def test_a_coefficient_off_by_one_ulp_is_seen() -> None:
    from diffusers import FlowMatchEulerDiscreteScheduler

    cases: list[tuple[Any, Solver, str]] = [
        (FlowMatchEulerDiscreteScheduler(shift=3.0), Euler(), "dt"),
        *((flow_unipc(), UniPC(), name) for name in ("sigma", "predict.scale", "correct.x0_weight")),
        *((flow_unipc(), UniPC(), name) for name in ("predict.slope", "correct.ratio_1", "correct.rho")),
    ]
    for scheduler, solver, name in cases:
        scheduler.set_timesteps(8)
        schedule = Schedule(sigmas=scheduler.sigmas, timesteps=scheduler.timesteps)
        start, *velocities = noise(9)
        wrong = driven(off_by_one_ulp(solver.plan(schedule, CPU), name), start, velocities)
        theirs = reference(scheduler, start, velocities)
        assert not all(map(torch.equal, wrong, theirs)), name


@pytest.mark.parametrize("solver", [Euler(), UniPC()], ids=["euler", "unipc"])
def test_a_solver_is_exact_on_a_straight_line(solver: Solver) -> None:
    from restrike.loops.schedule import flow_schedule

    clean, start = noise(2)
    schedule = flow_schedule(6, shift=3.0)
    latents = driven(solver.plan(schedule, CPU), start, [start - clean] * 6)
    torch.testing.assert_close(latents[-1], clean, rtol=1e-5, atol=1e-5)
