from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from restrike.loops.contract import Forward, Tensors
from restrike.loops.guidance import (
    DELTA,
    SCALE,
    Batched,
    Classic,
    Embedded,
    GuidancePolicy,
    GuidanceStep,
    Reused,
    Unguided,
    structure_of,
)

from .tiny import CHANNELS, SIDE, TOKENS, WIDTH, TinyModel, components

DENOISER = components()["noisy"]


def inputs_of(seed: int, scale: float) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "latent": torch.randn(1, CHANNELS, SIDE, SIDE, generator=generator),
        "timestep": torch.tensor([640.0]),
        "cond.text": torch.randn(1, TOKENS, WIDTH, generator=generator),
        "uncond.text": torch.randn(1, TOKENS, WIDTH, generator=generator),
        SCALE: torch.tensor(scale),
    }


def recording(seen: list[tuple[str, dict[str, Tensor]]]) -> Forward:
    """A forward of the real denoiser that notes what it was called with."""

    def forward(branch: str, inputs: Tensors) -> Tensor:
        seen.append((branch, dict(inputs)))
        return TinyModel().denoise(DENOISER, inputs)

    return forward


def run(step: GuidanceStep, inputs: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor], list]:
    seen: list[tuple[str, dict[str, Tensor]]] = []
    velocity, kept = step(recording(seen), inputs)
    return velocity, kept, seen


def branches(inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """The velocities of both branches, each computed alone."""
    common = {name: inputs[name] for name in ("latent", "timestep")}
    told = [{**common, "text": inputs[f"{branch}.text"]} for branch in ("cond", "uncond")]
    conditional, unconditional = (TinyModel().denoise(DENOISER, each) for each in told)
    return conditional, unconditional


SCALES = st.floats(0, 20)
SEEDS = st.integers(0, 1000)


@given(seed=SEEDS, scale=SCALES)
def test_classic_is_the_stated_linear_combination(seed: int, scale: float) -> None:
    inputs = inputs_of(seed, scale)
    conditional, unconditional = branches(inputs)
    velocity, kept, seen = run(Classic(), inputs)
    assert torch.equal(velocity, unconditional + scale * (conditional - unconditional))
    assert [branch for branch, _ in seen] == ["cond", "uncond"]
    assert kept == {}


@given(seed=SEEDS, scale=SCALES)
def test_batched_equals_classic_in_one_forward_of_twice_the_batch(seed: int, scale: float) -> None:
    inputs = inputs_of(seed, scale)
    velocity, _, seen = run(Batched(), inputs)
    torch.testing.assert_close(velocity, run(Classic(), inputs)[0], rtol=1e-4, atol=1e-5)
    ((_, told),) = seen
    assert {name: len(value) for name, value in told.items()} == {"latent": 2, "timestep": 2, "text": 2}


@given(seed=SEEDS, scale=SCALES)
def test_embedded_guidance_is_one_branch_that_is_told_the_scale(seed: int, scale: float) -> None:
    inputs = inputs_of(seed, scale)
    velocity, kept, seen = run(Embedded(), inputs)
    ((branch, told),) = seen
    assert branch == "cond"
    assert torch.equal(told[SCALE], torch.tensor([scale]))
    assert torch.equal(velocity, TinyModel().denoise(DENOISER, told))
    assert kept == {}


def test_unguided_is_the_conditional_branch() -> None:
    inputs = inputs_of(1, 5.0)
    velocity, kept, seen = run(Unguided(), inputs)
    assert torch.equal(velocity, branches(inputs)[0])
    assert [branch for branch, _ in seen] == ["cond"]
    assert kept == {}


@pytest.mark.parametrize("step", [Unguided(), Classic(), Reused(), Embedded()])
def test_a_branch_never_sees_the_tensors_of_another(step: GuidanceStep) -> None:
    inputs = inputs_of(1, 5.0)
    for branch, told in run(step, {**inputs, DELTA: inputs["latent"]})[2]:
        assert told["text"] is inputs[f"{branch}.text"]
        assert set(told) <= {"latent", "timestep", "text", SCALE}


@given(seed=SEEDS, scale=SCALES)
def test_a_delta_reused_on_unchanged_inputs_changes_nothing(seed: int, scale: float) -> None:
    inputs = inputs_of(seed, scale)
    velocity, kept, _ = run(Classic(keeps_delta=True), inputs)
    again, still, seen = run(Reused(), inputs | kept)
    torch.testing.assert_close(again, velocity, rtol=1e-4, atol=1e-5)
    assert still[DELTA] is kept[DELTA]
    assert [branch for branch, _ in seen] == ["cond"]


# Which step gets which guidance.


def kinds(policy: GuidancePolicy, sigmas: list[float], scales: list[float], experts: list[str]) -> str:
    steps = policy.plan(sigmas, scales, experts)
    return "".join(type(step).__name__[0] for step in steps)


def plain(policy: GuidancePolicy, steps: int = 8, scale: float = 5.0, experts: str = "") -> str:
    sigmas = [1 - index / steps for index in range(steps)]
    return kinds(policy, sigmas, [scale] * steps, list(experts or "a" * steps))


def test_each_mode_has_its_step() -> None:
    assert plain(GuidancePolicy(mode="none")) == "UUUUUUUU"
    assert plain(GuidancePolicy(mode="cfg")) == "CCCCCCCC"
    assert plain(GuidancePolicy(mode="batched")) == "BBBBBBBB"
    assert plain(GuidancePolicy(mode="embedded")) == "EEEEEEEE"


@pytest.mark.parametrize("scale", [0.0, 0.5, 1.0])
def test_a_scale_of_at_most_one_is_unguided(scale: float) -> None:
    assert plain(GuidancePolicy(mode="cfg"), scale=scale) == "UUUUUUUU"
    assert plain(GuidancePolicy(mode="embedded"), scale=scale) == "EEEEEEEE"


def test_guidance_acts_within_its_interval_of_sigma() -> None:
    # The sigmas are 1, 0.875, 0.75, 0.625, 0.5, ...; both ends belong to the interval.
    assert plain(GuidancePolicy(mode="cfg", interval=(0.5, 0.875))) == "UCCCCUUU"


def test_the_delta_is_computed_every_nth_step_and_reused_between() -> None:
    assert plain(GuidancePolicy(mode="cfg", every=3)) == "CRRCRRCR"
    assert plain(GuidancePolicy(mode="batched", every=2)) == "BRBRBRBR"


def test_a_new_expert_computes_its_own_delta() -> None:
    assert plain(GuidancePolicy(mode="cfg", every=3), experts="aaaabbbb") == "CRRCCRRC"


def test_a_gap_in_guidance_forgets_the_delta() -> None:
    scales = [5.0, 5.0, 1.0, 5.0, 5.0]
    policy = GuidancePolicy(mode="cfg", every=4)
    assert kinds(policy, [0.9, 0.8, 0.7, 0.6, 0.5], scales, ["a"] * 5) == "CRUCR"


def test_a_model_with_embedded_guidance_is_told_every_step() -> None:
    assert plain(GuidancePolicy(mode="embedded", every=3, interval=(0.4, 0.6))) == "EEEEEEEE"


@given(
    every=st.integers(1, 5),
    scales=st.lists(st.sampled_from([1.0, 4.0]), min_size=1, max_size=20),
    data=st.data(),
)
def test_no_delta_is_ever_missing_old_or_of_another_expert(
    every: int, scales: list[float], data: st.DataObject
) -> None:
    switch = data.draw(st.integers(0, len(scales)))
    experts = ["a" if index < switch else "b" for index in range(len(scales))]
    steps = GuidancePolicy(mode="cfg", every=every).plan([0.5] * len(scales), scales, experts)
    age: int | None = None
    for index, step in enumerate(steps):
        if isinstance(step, Reused):
            assert age is not None
            assert age < every
            assert experts[index] == experts[index - 1]
            age += 1
        else:
            age = 1 if isinstance(step, Classic) and step.keeps_delta else None


def test_the_structure_tells_steps_with_different_kernels_apart() -> None:
    steps = [Unguided(), Classic(), Classic(keeps_delta=True), Batched(), Embedded(), Reused()]
    structures = [structure_of(step) for step in steps]
    assert len(set(structures)) == len(steps)
    assert all(a == b for a, b in pairwise([structure_of(Classic()), structure_of(Classic())]))
