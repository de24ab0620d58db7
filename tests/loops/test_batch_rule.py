"""N stacked plans against the N alone: the batch rule of `StepPlan`, for every solver and guidance."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from restrike.loops.contract import StepPlan, Tensors
from restrike.loops.schedule import flow_schedule
from restrike.loops.solvers.base import Solver, SolverStep
from restrike.loops.solvers.euler import Euler
from restrike.loops.solvers.sde import FlowSDE
from restrike.loops.solvers.unipc import UniPC

from .tiny import Driver

CPU = torch.device("cpu")
WAYS: list[dict[str, Any]] = [
    {"solver": solver, "guidance_mode": mode, "guidance_every": every}
    for solver, mode, every in product(
        ("euler", "sde", "unipc"), ("none", "cfg", "batched", "embedded"), (1, 2)
    )
    if every == 1 or mode in ("cfg", "batched")
]


def stacked(many: list[Tensors], rank: int) -> dict[str, Tensor]:
    """The inputs of N plans as those of one, by the rule: columns for numbers, the rest concatenated."""
    column = (1,) * (rank - 1)
    return {
        name: torch.stack([each[name] for each in many]).reshape(-1, *column)
        if many[0][name].ndim == 0
        else torch.cat([each[name] for each in many])
        for name in many[0]
    }


def pointwise(branch: str, inputs: Tensors) -> Tensor:
    """A velocity in which no item, and no element, sees another: equal bits at any batch size."""
    text_B = inputs["text"][:, 0, 0].reshape(-1, 1, 1, 1)
    clock_B = (inputs["timestep"] / 1000).reshape(-1, 1, 1, 1)
    told_B = inputs["guidance"].reshape(-1, 1, 1, 1) if "guidance" in inputs else torch.ones(())
    return inputs["latent"] * clock_B + text_B * told_B


def lives(way: dict[str, Any], seeds: list[int]) -> tuple[Driver, list[Any]]:
    """Requests of different prompts, seeds, scales and shifts that change experts at the same step."""
    driver = Driver()
    scaled = way["guidance_mode"] != "none"
    own = [
        {"seed": seed, "prompt": f"{seed} cats", "shift": 4.0 + seed / 50}
        | ({"guidance": 2.0 + seed / 7} if scaled else {})
        for seed in seeds
    ]
    contexts = [driver.context(**way, **asked) for asked in own]
    return driver, [driver.loop.init(context) for context in contexts]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(map(str, way.values())))
@pytest.mark.parametrize("count", [1, 2, 5])
def test_stacked_plans_equal_the_plans_alone(way: dict[str, Any], count: int) -> None:
    driver, states = lives(way, list(range(3, 3 + count)))
    steps = 0
    while (plans := [driver.loop.next(state) for state in states])[0] is not None:
        steps += 1
        alone = [plan.compute(pointwise, plan.inputs) for plan in plans]
        together = as_one(plans, pointwise)
        for row, (state, own) in enumerate(zip(states, alone, strict=True)):
            mine = {name: value[row : row + 1] for name, value in together.items()}
            assert mine.keys() == own.keys()
            for name, value in own.items():
                assert torch.equal(mine[name], value), (name, row)
            driver.loop.advance(state, mine)
    assert steps == 6


def as_one(plans: list[StepPlan], forward: Any) -> Tensors:
    assert len({plan.structure for plan in plans}) == 1
    inputs = stacked([plan.inputs for plan in plans], plans[0].inputs["latent"].ndim)
    return plans[0].compute(forward, inputs)


def test_the_real_denoiser_is_equal_within_rounding() -> None:
    driver, states = lives({"guidance_mode": "cfg"}, [3, 4, 5])
    plans = [driver.loop.next(state) for state in states]
    module = driver.modules[plans[0].component]
    forward = lambda branch, inputs: plans[0].call(module, inputs)  # noqa: E731
    together = as_one(plans, forward)
    for row, plan in enumerate(plans):
        own = plan.compute(forward, plan.inputs)
        torch.testing.assert_close(together["latent"][row : row + 1], own["latent"], rtol=1e-5, atol=1e-6)


def test_a_number_that_met_the_wrong_item_would_be_seen() -> None:
    driver, states = lives({"guidance_mode": "cfg"}, [3, 4])
    plans = [driver.loop.next(state) for state in states]
    crossed = stacked([plan.inputs for plan in plans], 4)
    crossed["guidance"] = crossed["guidance"].flip(0)
    found = plans[0].compute(pointwise, crossed)["latent"]
    assert not torch.equal(found, as_one(plans, pointwise)["latent"])


SHAPE = (1, 4, 2, 3, 5)
SOLVERS = [
    Euler(),
    FlowSDE(),
    *(UniPC(order=order, kind=kind) for order in (1, 2, 3) for kind in ("bh1", "bh2")),
]


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
@given(shifts=st.lists(st.floats(0.5, 8), min_size=2, max_size=4), seed=st.integers(0, 99))
@settings(max_examples=10, deadline=None)
def test_every_solver_of_every_order_follows_the_rule(solver: Solver, shifts: list[float], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    draw = lambda: torch.randn(SHAPE, generator=generator)  # noqa: E731
    plans = [solver.plan(flow_schedule(6, shift=shift), CPU) for shift in shifts]
    latents, histories = [draw() for _ in shifts], [{} for _ in shifts]
    for index in range(5):  # the last step of bh1 ends at a sigma whose log-SNR is infinite
        steps: list[SolverStep] = [plan[index] for plan in plans]
        velocities = [draw() for _ in shifts]
        inputs = [
            {**step.coefficients, **{name: past[name] for name in step.history}, "noise": draw()}
            for step, past in zip(steps, histories, strict=True)
        ]
        together = steps[0].apply(torch.cat(latents), torch.cat(velocities), stacked(inputs, len(SHAPE)))
        for row, step in enumerate(steps):
            own = step.apply(latents[row], velocities[row], inputs[row])
            for name, value in own.items():
                assert torch.equal(together[name][row : row + 1], value), (name, row)
            latents[row], histories[row] = own["latent"], dict(own)
