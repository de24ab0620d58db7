from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from restrike.loops.schedule import flow_schedule

STEPS = st.integers(1, 1000)
SHIFTS = st.floats(0.01, 100)


@given(steps=STEPS, shift=SHIFTS)
def test_sigmas_descend_strictly_from_one_to_zero(steps: int, shift: float) -> None:
    schedule = flow_schedule(steps, shift=shift)
    assert schedule.steps == steps == len(schedule.sigmas) - 1
    assert schedule.sigmas.dtype == torch.float32
    assert schedule.sigmas[0] == 1
    assert schedule.sigmas[-1] == 0
    assert bool((schedule.sigmas[1:] < schedule.sigmas[:-1]).all())


@given(steps=st.integers(2, 100), shift=st.floats(1.1, 50))
def test_a_larger_shift_stays_noisy_for_longer(steps: int, shift: float) -> None:
    plain, shifted = flow_schedule(steps).sigmas, flow_schedule(steps, shift=shift).sigmas
    assert bool((shifted[1:-1] > plain[1:-1]).all())


def test_known_values() -> None:
    assert flow_schedule(4).sigmas.tolist() == [1.0, 0.75, 0.5, 0.25, 0.0]
    torch.testing.assert_close(flow_schedule(4, shift=3.0).sigmas, torch.tensor([1.0, 0.9, 0.75, 0.5, 0.0]))


@given(sigmas=st.lists(st.floats(0.001, 1), min_size=1, max_size=20, unique=True), shift=SHIFTS)
def test_given_sigmas_are_used_unchanged(sigmas: list[float], shift: float) -> None:
    given_sigmas = tuple(sorted(sigmas, reverse=True))
    schedule = flow_schedule(99, shift=shift, sigmas=given_sigmas)
    assert torch.equal(schedule.sigmas, torch.tensor([*given_sigmas, 0.0]))


@given(steps=STEPS, shift=SHIFTS)
def test_the_model_is_told_a_thousand_times_sigma(steps: int, shift: float) -> None:
    schedule = flow_schedule(steps, shift=shift)
    assert torch.equal(schedule.timesteps, schedule.sigmas[:-1] * 1000)
