from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby, product, zip_longest
from typing import Any

import pytest
import torch
from torch import Tensor

from guards import NoKernel
from restrike.engine.pictures import PictureRun
from restrike.errors import Refused
from restrike.loops.contract import LoopContext, StepPlan, Tensors
from restrike.loops.denoise import DenoiseLoop, DenoiseState
from restrike.loops.ops import TORCH_OPS, StepOps

from .tiny import Denoiser, Driver, TinyModel, components, finished, step

SOLVERS = ("euler", "sde", "unipc")
MODES = ("none", "cfg", "batched", "embedded")
WAYS: list[dict[str, Any]] = [
    {"solver": solver, "guidance_mode": mode} for solver, mode in product(SOLVERS, MODES)
] + [{"guidance_every": 3}, {"guidance_interval": (0.3, 0.8)}, {"sigmas": (0.9, 0.6, 0.2)}]
every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(map(str, way.values())))


def contents(state: DenoiseState) -> dict[str, Any]:
    """All that a state holds, copied; tensors as what they are and what they hold."""
    own = {name: value for name, value in vars(state).items() if name not in ("context", "trajectory")}
    own["generator"] = state.generator.get_state()
    return copy.deepcopy(own)


def assert_same(one: Any, other: Any) -> None:
    torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


# Planning.


@every_way
def test_planning_runs_no_kernel_and_changes_nothing(way: dict[str, Any]) -> None:
    driver = Driver()
    loop: DenoiseLoop = driver.loop  # type: ignore[assignment]
    state = loop.init(driver.context(**way))
    while True:
        before = contents(state)
        with NoKernel():
            plan = loop.next(state)
            assert loop.next(state) == plan
        after = contents(state)
        assert before.keys() == after.keys()
        for name in before:
            if before[name] is not None:
                assert_same(before[name], after[name])
        if plan is None:
            return
        loop.advance(state, plan.compute(forward_of(driver, plan), plan.inputs))


def forward_of(driver: Driver, plan: StepPlan) -> Any:
    return lambda branch, inputs: plan.call(driver.modules[plan.component], inputs)


def test_the_guard_sees_a_kernel_that_a_plan_runs() -> None:
    class Scaling(DenoiseLoop):
        """Computes while it plans."""

        def next(self, state: DenoiseState) -> StepPlan | None:
            state.latent = state.latent * 1
            return super().next(state)

    driver = Driver()
    loop = Scaling(TinyModel())
    state = loop.init(driver.context())
    with NoKernel(), pytest.raises(AssertionError, match="ran where none may"):
        loop.next(state)


@pytest.mark.parametrize("steps", [1, 2, 4, 7])
@pytest.mark.parametrize("solver", SOLVERS)
def test_the_steps_that_were_asked_for_are_executed(steps: int, solver: str) -> None:
    plans: list[StepPlan] = []
    finished(Driver().start(steps=steps, solver=solver), plans.append)
    assert [(plan.index, plan.total) for plan in plans] == [(index, steps) for index in range(steps)]


def test_given_sigmas_are_the_ones_that_are_visited() -> None:
    sigmas = (0.875, 0.5, 0.125)
    plans: list[StepPlan] = []
    finished(Driver().start(sigmas=sigmas), plans.append)
    assert tuple(plan.sigma for plan in plans) == sigmas


# Experts.


def test_the_expert_changes_once_and_at_the_boundary() -> None:
    plans: list[StepPlan] = []
    finished(Driver().start(steps=10), plans.append)
    assert [name for name, _ in groupby(plan.component for plan in plans)] == ["noisy", "clean"]
    assert all((plan.component == "clean") == (plan.sigma < 0.5) for plan in plans)


def scales(**asked: Any) -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    run = Driver().start(guidance=4.0, guidance_2=2.0, **asked)
    finished(run, lambda plan: found.append((plan.component, float(plan.inputs["guidance"]))))
    return list(dict.fromkeys(found))


def test_each_expert_has_its_own_guidance() -> None:
    assert scales() == [("noisy", 4.0), ("clean", 2.0)]


def test_a_trajectory_that_begins_late_uses_the_later_guidance() -> None:
    assert scales(sigmas=(0.4, 0.2)) == [("clean", 2.0)]


@dataclass(frozen=True)
class OneExpert(TinyModel):
    """Denoises all the way with the same component."""

    def expert(self, timestep: float) -> str:
        return "noisy"


def test_a_second_guidance_needs_a_second_expert() -> None:
    driver = Driver(loop=DenoiseLoop(OneExpert()))
    driver.latent(guidance=4.0, guidance_2=4.0)
    with pytest.raises(Refused, match=r"guidance_2 2\.0 has no effect: 'noisy' is the only expert"):
        driver.latent(guidance=4.0, guidance_2=2.0)


def test_a_delta_is_computed_anew_by_a_new_expert() -> None:
    counted: Counter[tuple[str, str]] = Counter()
    run = Driver().start(steps=8, guidance_every=4)
    finished(run, lambda plan: counted.update([(plan.component, plan.structure[2][0])]))  # type: ignore[index]
    assert counted == {
        ("noisy", "classic"): 2,
        ("noisy", "reused"): 3,
        ("clean", "classic"): 1,
        ("clean", "reused"): 2,
    }


# What is computed once.


@dataclass(frozen=True)
class Counting(TinyModel):
    """Notes each conditioning that is computed."""

    seen: list[tuple[str, str]] = field(default_factory=list)

    def conditioning(self, context: LoopContext, expert: str, branch: str) -> Mapping[str, Tensor]:
        self.seen.append((expert, branch))
        return super().conditioning(context, expert, branch)


def test_conditioning_is_computed_once_a_request() -> None:
    model = Counting()
    driver = Driver(loop=DenoiseLoop(model))
    shared: dict[str, Any] = {}
    for item in range(3):
        finished(driver.start(item, shared))
    assert sorted(model.seen) == list(product(("clean", "noisy"), ("cond", "uncond")))


def test_a_branch_that_no_step_runs_is_not_encoded() -> None:
    model = Counting()
    finished(Driver(loop=DenoiseLoop(model)).start(guidance_mode="none"))
    assert sorted(model.seen) == [("clean", "cond"), ("noisy", "cond")]


# Solving.


@pytest.mark.parametrize(("solver", "count"), [("sde", 5), ("euler", 0), ("unipc", 0)])
def test_only_stochastic_steps_record_a_log_probability(solver: str, count: int) -> None:
    run = Driver().start(solver=solver)
    while run.peek() is not None:
        step(run)
    found = run.finalize().log_probs
    assert len(found) == count
    assert all(each.shape == () and bool(torch.isfinite(each)) for each in found)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_solver_works_in_float32_whatever_the_model_computes_in(solver: str) -> None:
    driver = Driver(modules=components(dtype=torch.bfloat16))
    run = driver.start(solver=solver)

    def check(plan: StepPlan) -> None:
        outputs = plan.compute(forward_of(driver, plan), plan.inputs)
        assert {value.dtype for value in outputs.values()} == {torch.float32}

    assert finished(run, check).dtype == torch.float32


def test_half_precision_enters_through_the_velocity_alone() -> None:
    driver = Driver(modules=components(dtype=torch.bfloat16))
    run = driver.start(guidance_mode="none", steps=4)
    expected = driver.loop.init(driver.context(guidance_mode="none", steps=4)).latent

    def follow(plan: StepPlan) -> None:
        nonlocal expected
        assert torch.equal(plan.inputs["latent"], expected)
        inputs = {name.removeprefix("cond."): value for name, value in plan.inputs.items()}
        velocity = plan.call(driver.modules[plan.component], inputs)
        assert velocity.dtype == torch.bfloat16
        expected = expected - 0.25 * velocity.float()

    assert torch.equal(finished(run, follow), expected)


def test_a_preview_shows_the_clean_estimate() -> None:
    driver = Driver()
    run = driver.start(guidance_mode="none", steps=2)
    context = driver.context(guidance_mode="none", steps=2)
    noise = driver.loop.init(context).latent
    assert run.peek() is not None
    assert torch.equal(torch.tensor(run.preview()), torch.tensor(TinyModel().decode(context, noise)))
    plan = run.peek()
    assert plan is not None
    inputs = {name.removeprefix("cond."): value for name, value in plan.inputs.items()}
    velocity = plan.call(driver.modules[plan.component], inputs)
    step(run)
    estimate = TinyModel().decode(context, noise - 0.5 * velocity - 0.5 * velocity)
    assert torch.equal(torch.tensor(run.preview()), torch.tensor(estimate))


# Isolation.


def interleaved(runs: list[PictureRun]) -> list[Tensor]:
    """One step of each in turn, to the end of all."""
    working = list(runs)
    while working:
        for run in list(working):
            if run.peek() is None:
                working.remove(run)
            else:
                step(run)
    latents = [run.finalize().latent for run in runs]
    assert all(latent is not None for latent in latents)
    return latents  # type: ignore[return-value]


REQUESTS: list[dict[str, Any]] = [
    {"seed": index, "prompt": f"{index} cats", "steps": 4 + index % 3, **way}
    | ({"steps": None} if "sigmas" in way else {})
    for index, way in enumerate(WAYS)
]


def test_interleaved_requests_equal_the_same_requests_alone() -> None:
    driver = Driver()
    together = interleaved([driver.start(**request) for request in REQUESTS])
    for request, latent in zip(REQUESTS, together, strict=True):
        assert torch.equal(latent, driver.latent(**request))


@dataclass(frozen=True)
class Leaking(TinyModel):
    """Keeps the last velocity on the module, and leans on it."""

    def denoise(self, module: Any, inputs: Tensors) -> Tensor:
        velocity = super().denoise(module, inputs)
        before = getattr(module, "before_this", torch.zeros(()))
        module.before_this = velocity
        return velocity + 0.1 * before


def test_state_on_a_module_is_seen_by_that() -> None:
    requests = [{"seed": 1, "guidance_mode": "none"}, {"seed": 2, "guidance_mode": "none"}]
    driver = Driver(loop=DenoiseLoop(Leaking()))
    together = interleaved([driver.start(**request) for request in requests])
    alone = [Driver(loop=DenoiseLoop(Leaking())).latent(**request) for request in requests]
    assert not all(torch.equal(a, b) for a, b in zip_longest(together, alone))


@every_way
def test_a_picture_alone_is_the_picture_of_a_batch(way: dict[str, Any]) -> None:
    driver = Driver()
    shared: dict[str, Any] = {}
    batch = [finished(driver.start(item, shared, **way)) for item in range(3)]
    assert torch.equal(driver.latent(2, **way), batch[2])
    assert not torch.equal(batch[0], batch[1])


@every_way
def test_a_seed_decides_the_picture(way: dict[str, Any]) -> None:
    assert torch.equal(Driver().latent(seed=3, **way), Driver().latent(seed=3, **way))
    assert not torch.equal(Driver().latent(seed=3, **way), Driver().latent(seed=4, **way))


def test_nothing_is_written_on_the_modules() -> None:
    driver = Driver()
    before = {name: {k: v.clone() for k, v in m.state_dict().items()} for name, m in driver.modules.items()}
    attributes = {name: set(vars(module)) for name, module in driver.modules.items()}
    driver.latent(solver="sde")
    for name, module in driver.modules.items():
        assert set(vars(module)) == attributes[name]
        assert_same(dict(module.state_dict()), before[name])
    assert isinstance(driver.modules["noisy"], Denoiser)


# The ops that steps compute with.


@pytest.mark.parametrize(
    ("way", "used"),
    [
        ({"solver": "euler", "guidance_mode": "cfg"}, {"guided_euler": 6}),
        ({"solver": "euler", "guidance_mode": "batched"}, {"guided_euler": 6}),
        ({"solver": "euler", "guidance_mode": "none"}, {}),
        ({"solver": "euler", "guidance_mode": "cfg", "guidance_every": 2}, {}),
        ({"solver": "sde", "guidance_mode": "cfg"}, {"sde_step": 5, "guided_euler": 1}),
        ({"solver": "unipc", "guidance_mode": "cfg"}, {}),
    ],
    ids=str,
)
def test_steps_compute_with_the_ops_of_their_context(way: dict[str, Any], used: dict[str, int]) -> None:
    seen: Counter[str] = Counter()

    def counting(name: str, op: Any) -> Any:
        def call(*arguments: Tensor) -> Any:
            seen[name] += 1
            return op(*arguments)

        return call

    driver = Driver()
    run = driver.start(**way)
    ops = StepOps(
        guided_euler=counting("guided_euler", TORCH_OPS.guided_euler),
        sde_step=counting("sde_step", TORCH_OPS.sde_step),
    )
    run.context = replace(run.context, ops=ops)
    latent = finished(run)
    assert seen == used
    assert torch.equal(latent, driver.latent(**way))
