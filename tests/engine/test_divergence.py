"""The first-divergence report: each rule by which two runs differ, and what a tracer sees of a real run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from restrike.cards.request import Request
from restrike.engine.divergence import (
    Divergence,
    Tap,
    Tolerance,
    Trace,
    Tracer,
    first_divergence,
    only,
    result_taps,
    traces,
)
from restrike.engine.engine import Engine
from restrike.engine.extensions import Extension, ForwardCall

from .driving import bytes_of

NAN, INF = float("nan"), float("inf")


def trace(**taps: Tensor | float | list[float]) -> Trace:
    """One tap a name, such as `latent_2` for the latent of step 2 of 3, and `frames` for the result."""
    made: list[Tap] = []
    for label, value in taps.items():
        name, _, step = label.rpartition("_")
        tensor = value if isinstance(value, Tensor) else torch.tensor(value)
        at = (int(step), 3) if name else (None, None)
        made.append(Tap(name=name or label, value=tensor, step=at[0], total=at[1]))
    return tuple(made)


def report(first: Trace, second: Trace, **tolerances: Tolerance) -> str | None:
    found = first_divergence(first, second, tolerances)
    return None if found is None else str(found)


def between(
    first: Tensor | float | list[float], second: Tensor | float | list[float], **allowed: float
) -> str | None:
    """What is reported of one tap with these two values."""
    tolerance = Tolerance(**allowed)
    found = first_divergence(trace(latent_1=first), trace(latent_1=second), {"latent": tolerance})
    return None if found is None else found.finding


def test_equal_runs_have_no_divergence() -> None:
    run = trace(velocity_1=[0.5, -1.0], latent_1=[0.25, NAN], frames=[7.0])
    assert report(run, trace(velocity_1=[0.5, -1.0], latent_1=[0.25, NAN], frames=[7.0])) is None


def test_the_earliest_tap_is_told_and_not_the_largest() -> None:
    one = trace(velocity_1=1.0, latent_1=1.0, velocity_2=1.0, latent_2=1.0, frames=1.0)
    other = trace(velocity_1=1.0, latent_1=1.0, velocity_2=1.25, latent_2=9.0, frames=200.0)
    assert report(one, other) == "step 2 of 3, tap velocity: max difference 0.25 at [], allowed 0"
    # The control: with the earlier one allowed, the next comes up, and so on to the end.
    allowed = Tolerance(absolute=0.25)
    assert (
        report(one, other, velocity=allowed) == "step 2 of 3, tap latent: max difference 8 at [], allowed 0"
    )
    wide = Tolerance(absolute=8.0)
    assert (
        report(one, other, velocity=allowed, latent=wide)
        == "result, tap frames: max difference 199 at [], allowed 0"
    )


def test_the_largest_difference_of_the_tap_is_located() -> None:
    first = torch.zeros(1, 4, 2, 5, 5)
    second = first.clone()
    second[0, 1, 0, 0, 0], second[0, 3, 1, 4, 4] = 1e-4, -3.1e-4
    found = first_divergence(
        trace(velocity_3=first), trace(velocity_3=second), {"velocity": Tolerance(absolute=1e-6)}
    )
    assert str(found) == (
        "step 3 of 3, tap velocity: max difference 0.00031 at [0, 3, 1, 4, 4], allowed 1e-06"
    )


class TestTolerance:
    def test_bits_are_compared_where_none_is_stated(self) -> None:
        ulp = float(torch.tensor(1.0).nextafter(torch.tensor(2.0)))
        assert between(1.0, ulp) == "max difference 1.19e-07 at [], allowed 0"
        assert between(1.0, ulp, absolute=1.2e-7) is None
        assert between([1.0, 0.0], [1.0, -0.0]) == "0.0 against -0.0 at [1], other bits"
        assert between([1.0, 0.0], [1.0, -0.0], absolute=1e-30) is None

    def test_absolute(self) -> None:
        assert between([0.0, 2.0], [0.0, 2.5], absolute=0.5) is None
        assert between([0.0, 2.0], [0.0, 2.5], absolute=0.49) == "max difference 0.5 at [1], allowed 0.49"

    def test_relative_to_the_second_run(self) -> None:
        assert between([1.0, 110.0], [1.0, 100.0], relative=0.1) is None
        found = between([1.0, 111.0], [1.0, 100.0], relative=0.1)
        assert found == "max difference 11 at [1], allowed 0.1 of the value"
        assert between([0.001], [0.0], relative=0.1) is not None

    def test_both_are_added(self) -> None:
        assert between([12.0], [10.0], absolute=1.0, relative=0.1) is None
        found = between([12.5], [10.0], absolute=1.0, relative=0.1)
        assert found == "max difference 2.5 at [0], allowed 1 + 0.1 of the value"

    def test_what_is_allowed_is_not_pointed_at(self) -> None:
        # 5 of 100 is allowed, 1 of 2 is not, though it is the smaller one.
        found = between([105.0, 3.0], [100.0, 2.0], relative=0.1)
        assert found == "max difference 1 at [1], allowed 0.1 of the value"

    def test_each_tap_has_its_own(self) -> None:
        one, other = trace(velocity_1=1.0, latent_1=1.0), trace(velocity_1=1.5, latent_1=1.5)
        assert report(one, other, velocity=Tolerance(absolute=1)) == (
            "step 1 of 3, tap latent: max difference 0.5 at [], allowed 0"
        )
        assert report(one, other, velocity=Tolerance(absolute=1), latent=Tolerance(absolute=1)) is None


class TestNotNumbers:
    @pytest.mark.parametrize("allowed", [{}, {"absolute": 1e30}, {"relative": 1e30}], ids=str)
    def test_a_nan_in_one_run_alone(self, allowed: dict[str, float]) -> None:
        assert between([0.0, NAN], [0.0, 1.0], **allowed) == "NaN in the first run alone at [1]"
        assert between([0.0, 1.0], [0.0, NAN], **allowed) == "NaN in the second run alone at [1]"

    def test_it_goes_before_any_number(self) -> None:
        assert between([9e30, NAN], [0.0, 1.0]) == "NaN in the first run alone at [1]"

    @pytest.mark.parametrize("allowed", [{}, {"absolute": 1.0}, {"relative": 1.0}], ids=str)
    def test_what_both_runs_have_in_the_same_place_is_no_divergence(self, allowed: dict[str, float]) -> None:
        odd = [NAN, INF, -INF, 1.0]
        assert between(odd, odd, **allowed) is None

    @pytest.mark.parametrize("allowed", [{}, {"absolute": 1e30}, {"relative": 1e30}], ids=str)
    @pytest.mark.parametrize("other", [-INF, 3e38])
    def test_an_infinity_equals_itself_alone(self, other: float, allowed: dict[str, float]) -> None:
        assert "max difference inf at [0]" in (between([INF], [other], **allowed) or "")
        assert "max difference inf at [0]" in (between([other], [INF], **allowed) or "")


class TestShape:
    def test_another_shape_or_dtype_differs_however_close_the_values(self) -> None:
        assert between(torch.zeros(1, 2), torch.zeros(2, 1), absolute=9) == "shape [1, 2] against [2, 1]"
        half = torch.zeros(2, dtype=torch.bfloat16)
        assert between(torch.zeros(2), half, absolute=9) == "dtype float32 against bfloat16"

    def test_one_value_is_no_vector_of_one(self) -> None:
        assert between(torch.zeros(()), torch.zeros(1)) == "shape [] against [1]"

    def test_whole_numbers_and_truths_are_compared_too(self) -> None:
        grey = torch.full((1, 2, 2, 3), 127, dtype=torch.uint8)
        brighter = grey.clone()
        brighter[0, 1, 0, 2] = 130
        assert between(grey, grey.clone()) is None
        assert between(grey, brighter) == "max difference 3 at [0, 1, 0, 2], allowed 0"
        assert between(grey, brighter, absolute=3) is None
        assert between(torch.tensor([True]), torch.tensor([False])) == "max difference 1 at [0], allowed 0"

    def test_how_a_tensor_lies_in_memory_is_no_difference(self) -> None:
        value = torch.arange(6.0).reshape(2, 3)
        assert between(value.T.contiguous().T, value) is None


class TestAbsence:
    def test_a_tap_of_one_run_alone(self) -> None:
        one, other = trace(velocity_1=1.0, latent_1=1.0), trace(latent_1=1.0)
        assert report(one, other) == "step 1 of 3, tap velocity: only in the first run"
        assert report(other, one) == "step 1 of 3, tap velocity: only in the second run"

    def test_a_step_of_one_run_alone(self) -> None:
        short, long = trace(latent_1=1.0, frames=1.0), trace(latent_1=1.0, latent_2=1.0, frames=1.0)
        assert report(short, long) == "step 2 of 3, tap latent: only in the second run"

    def test_it_comes_in_its_place_in_the_run(self) -> None:
        one = trace(velocity_1=1.0, latent_1=1.0, velocity_2=1.0)
        early = trace(velocity_1=1.5, latent_1=1.0, noise_2=0.0, velocity_2=1.0)
        late = trace(velocity_1=1.0, latent_1=1.0, noise_2=0.0, velocity_2=1.5)
        assert "step 1 of 3, tap velocity: max difference" in (report(one, early) or "")
        assert report(one, late) == "step 2 of 3, tap noise: only in the second run"
        assert report(late, one) == "step 2 of 3, tap noise: only in the first run"

    def test_nothing_in_both_runs(self) -> None:
        found = first_divergence((), ())
        assert str(found) == "result, tap any: neither run was seen to make anything"

    def test_an_empty_tensor_in_both_runs(self) -> None:
        empty = torch.zeros(0, 8, 8, 3, dtype=torch.uint8)
        run = trace(latent_1=1.0, frames=empty)
        assert report(run, run) == "result, tap frames: empty in both runs"
        assert report(run, run, frames=Tolerance(absolute=1)) is not None
        assert report(trace(frames=torch.ones(1)), trace(frames=torch.ones(1))) is None


# What a tracer sees of the real model.

REQUEST = Request(prompt="a 3", seed=5, steps=3, guidance_mode="cfg")


@dataclass(frozen=True)
class Off:
    """Adds a little to the velocity of one step (from 1)."""

    step: int
    name: str = "off"
    alters: bool = True

    def begin(self) -> None:
        return None

    def intercept(self, memory: None, call: ForwardCall, forward: Callable[[], Tensor]) -> Tensor:
        velocity = forward()
        return velocity + 1e-6 if call.plan.index + 1 == self.step and call.branch == "cond" else velocity


def traced(request: Request = REQUEST, *extensions: Extension) -> dict[int, Trace]:
    """The traces of a request on an engine with these extensions, by item."""
    tracer = Tracer()
    engine = Engine(device="cpu", extensions=(*extensions, tracer))
    return traces(tracer, engine.generate("digits", request))


def labels(run: Trace) -> list[str]:
    return [f"{tap.step or 'result'} {tap.name}" for tap in run]


def test_the_taps_come_in_the_order_in_which_they_are_made() -> None:
    run = traced()[0]
    assert [label for label in labels(run) if "input" not in label] == [
        *(f"{step} {name}" for step in (1, 2, 3) for name in ("velocity", "latent")),
        "result latent",
        "result frames",
    ]


def test_each_solver_shows_what_it_keeps() -> None:
    stochastic = traced(replace(REQUEST, solver="sde"))[0]
    names = [name for name in labels(stochastic) if name.startswith("2 ") and "input" not in name]
    assert names == ["2 velocity", "2 latent", "2 log_prob"]
    assert labels(stochastic)[-3:] == ["result latent", "result log_probs", "result frames"]
    multistep = traced(replace(REQUEST, solver="unipc"))[0]
    assert {"2 history.sample", "2 history.x0_1"} <= set(labels(multistep))


def test_what_a_step_reads_is_kept_once_while_it_stays_the_same() -> None:
    seen = [label for label in labels(traced()[0]) if "input.cond" in label or "input.latent" in label]
    text = [label for label in seen if "cond" in label]
    assert text
    assert all(label.startswith("1 ") for label in text)
    assert [label for label in seen if "latent" in label] == [f"{step} input.latent" for step in (1, 2, 3)]


def test_a_tracer_keeps_copies_and_changes_no_byte(engine: Engine) -> None:
    tracer = Tracer()
    watching = Engine(device="cpu", extensions=(tracer,))
    assert bytes_of(watching, REQUEST) == bytes_of(engine, REQUEST)
    generation = watching.generate("digits", REQUEST)
    assert generation.picture.latent is not None
    tapped = result_taps(generation.picture)
    with torch.inference_mode():
        generation.picture.latent.zero_()
    assert bool(tapped[0].value.any())


def test_two_runs_of_one_request_agree() -> None:
    assert first_divergence(traced()[0], traced()[0]) is None


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_planted_difference_is_found_where_it_was_planted(step: int) -> None:
    found = first_divergence(traced()[0], traced(REQUEST, Off(step))[0])
    assert found is not None
    assert (found.place, found.tap) == (f"step {step} of 3", "velocity")


@pytest.mark.parametrize(
    ("change", "tap"),
    [
        ({"seed": 6}, "input.latent"),
        ({"prompt": "a 4"}, "input.cond."),
        ({"negative_prompt": "a 4"}, "input.uncond."),
        ({"guidance": 4.0}, "input.guidance"),
    ],
    ids=str,
)
def test_a_difference_of_what_was_asked_is_found_before_the_first_velocity(
    change: dict[str, Any], tap: str
) -> None:
    found = first_divergence(traced()[0], traced(replace(REQUEST, **change))[0])
    assert isinstance(found, Divergence)
    assert found.place == "step 1 of 3"
    assert found.tap.startswith(tap)


def test_each_picture_of_a_request_has_its_own_trace() -> None:
    made = traced(replace(REQUEST, items=(4, 0)))
    assert list(made) == [4, 0]
    assert first_divergence(made[0], traced()[0]) is None
    assert first_divergence(made[4], made[0]) is not None


def test_runs_can_be_compared_by_some_taps_alone() -> None:
    plain, guided = traced()[0], traced(replace(REQUEST, guidance=4.0))[0]
    found = first_divergence(only(plain, ("velocity", "latent")), only(guided, ("velocity", "latent")))
    assert found is not None
    assert found.tap == "velocity"
