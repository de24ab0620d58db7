from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Normal

from restrike.loops.ops import TORCH_OPS
from restrike.loops.schedule import flow_schedule
from restrike.loops.solvers.base import Solver, SolverStep
from restrike.loops.solvers.euler import Euler
from restrike.loops.solvers.sde import FlowSDE, log_prob, sde_mean

CPU = torch.device("cpu")
SHAPE = (1, 2, 4, 4)


def tensors(seed: int, count: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(SHAPE, generator=generator) for _ in range(count)]


@given(steps=st.integers(2, 40), shift=st.floats(0.5, 8), seed=st.integers(0, 99), data=st.data())
def test_a_step_draws_from_a_gaussian_and_tells_its_density(
    steps: int, shift: float, seed: int, data: st.DataObject
) -> None:
    plan = FlowSDE().plan(flow_schedule(steps, shift=shift), CPU)
    step = plan[data.draw(st.integers(0, steps - 2))]
    latent, velocity, noise = tensors(seed, 3)
    inputs = {**step.coefficients, "noise": noise}
    result = step.apply(latent, velocity, inputs)
    gaussian = Normal(sde_mean(latent, velocity, inputs), inputs["deviation"])
    torch.testing.assert_close(
        result["log_prob"], gaussian.log_prob(result["latent"]).mean()[None], rtol=1e-4, atol=1e-4
    )
    assert result["log_prob"].shape == (1,)
    # Recomputed through the same kernel, the ratio to itself is exactly one.
    assert torch.equal(log_prob(result["latent"], gaussian.mean, inputs), result["log_prob"])


def test_every_step_but_the_last_is_stochastic() -> None:
    plan = FlowSDE().plan(flow_schedule(5), CPU)
    assert [step.stochastic for step in plan] == [True] * 4 + [False]
    (only,) = FlowSDE().plan(flow_schedule(1), CPU)
    assert not only.stochastic


def test_without_noise_the_mean_is_the_euler_step() -> None:
    quiet = FlowSDE(noise_level=1e-4).plan(flow_schedule(6), CPU)
    latent, velocity = tensors(1, 2)
    for step, plain in zip(quiet, Euler().plan(flow_schedule(6), CPU), strict=True):
        inputs = {**step.coefficients, "noise": torch.zeros(SHAPE)}
        expected = plain.apply(latent, velocity, plain.coefficients)["latent"]
        torch.testing.assert_close(step.apply(latent, velocity, inputs)["latent"], expected)


def walked(solver: Solver, steps: int, seed: int) -> Tensor:
    """Many samples of data that is standard normal, by its exact velocity."""
    schedule = flow_schedule(steps)
    generator = torch.Generator().manual_seed(seed)
    sample = torch.randn(1, 20_000, generator=generator)
    plan: tuple[SolverStep, ...] = solver.plan(schedule, CPU)
    for sigma, step in zip(schedule.sigmas[:-1], plan, strict=True):
        velocity = sample * (2 * sigma - 1) / ((1 - sigma) ** 2 + sigma**2)
        noise = {"noise": torch.randn(1, 20_000, generator=generator)} if step.stochastic else {}
        sample = step.apply(sample, velocity, {**step.coefficients, **noise})["latent"]
    return sample


@pytest.mark.parametrize("solver", [Euler(), FlowSDE(), FlowSDE(noise_level=0.3)], ids=str)
def test_stochastic_and_deterministic_paths_end_at_the_same_distribution(solver: Solver) -> None:
    samples = walked(solver, 200, 5)
    assert abs(float(samples.mean())) < 0.03
    assert abs(float(samples.std()) - 1) < 0.03


def test_a_wrong_drift_would_be_seen_by_that() -> None:
    class Undrifted(FlowSDE):
        """Adds the noise and leaves out the drift that makes up for it."""

        def plan(self, schedule, device, ops=TORCH_OPS):  # type: ignore[no-untyped-def]
            return tuple(
                SolverStep(
                    structure=noisy.structure,
                    coefficients={**noisy.coefficients, **plain.coefficients},
                    apply=lambda x, v, i: {
                        "latent": x + i["dt"] * v + i.get("deviation", 0) * i.get("noise", 0)
                    },
                    stochastic=noisy.stochastic,
                )
                for noisy, plain in zip(
                    super().plan(schedule, device), Euler().plan(schedule, device), strict=True
                )
            )

    assert abs(float(walked(Undrifted(), 200, 5).std()) - 1) > 0.1


def by_the_paper(sigma: float, following: float, level: float) -> tuple[float, float, float]:
    """Coefficients of x and v in the mean, and the deviation, written from the formula once more."""
    inside = sigma if sigma < 1 else following
    scale, dt = level * math.sqrt(inside / (1 - inside)), following - sigma
    drift = scale**2 / (2 * sigma)
    return 1 + drift * dt, (1 + drift * (1 - sigma)) * dt, scale * math.sqrt(-dt)


def test_the_gaussian_is_that_of_the_paper() -> None:
    schedule = flow_schedule(6, shift=3.0)
    sigmas = schedule.sigmas.tolist()
    latent, velocity, sample = tensors(2, 3)
    for index, step in enumerate(FlowSDE().plan(schedule, CPU)[:-1]):
        keep, move, deviation = by_the_paper(sigmas[index], sigmas[index + 1], 0.7)
        mean, inputs = sde_mean(latent, velocity, step.coefficients), step.coefficients
        oracle = Normal(latent * keep + velocity * move, deviation)
        torch.testing.assert_close(mean, oracle.mean, rtol=1e-5, atol=1e-6)
        found, off = log_prob(sample, mean, inputs), Normal(oracle.mean, deviation * 1.001)
        torch.testing.assert_close(found, oracle.log_prob(sample).mean()[None], rtol=1e-5, atol=1e-5)
        assert not torch.isclose(found, off.log_prob(sample).mean()[None], rtol=1e-5, atol=1e-5)
