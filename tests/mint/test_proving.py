"""What is near enough to eager, and what is no proof at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from restrike.cards.compile import CompileTarget, ShapeClass
from restrike.mint.proving import difference, prove, require_steady
from restrike.mint.refusals import NotExportable, OutOfTolerance, Subject
from restrike.mint.warm import Observed

SUBJECT = Subject(card="sample", recipe="aot")
TARGET = CompileTarget(component="denoiser", ingress=("latent",), text="latent")


def call(component: Any, inputs: Mapping[str, Tensor]) -> Tensor:
    return component(inputs["latent"])


def observed(batch: int | tuple[int, int] = 1) -> Observed:
    shape = ShapeClass(width=1, height=1, text_tokens=4, batch=batch)
    return Observed(target=TARGET, shape=shape, call=call, inputs={"latent": torch.arange(1.0, 5.0)[None]})


def test_a_difference_is_relative_to_the_largest_value_of_eager() -> None:
    eager = torch.tensor([10.0, 0.0])
    assert difference(eager, eager + torch.tensor([0.0, 0.1])) == pytest.approx(0.01)
    assert difference(torch.zeros(2), torch.zeros(2)) == 0


@pytest.mark.parametrize(
    "cell",
    [torch.ones(3), torch.ones(2, dtype=torch.float64), torch.tensor([1.0, float("nan")])],
    ids=["another shape", "another kind", "no number"],
)
def test_what_cannot_be_compared_is_never_near(cell: Tensor) -> None:
    assert not difference(torch.ones(2), cell) <= 1e30


def test_an_answer_that_is_not_zero_is_not_near_one_that_is() -> None:
    assert not difference(torch.zeros(2), torch.full((2,), 1e-30)) <= 1e30


def test_a_proof_holds_at_both_ends_of_a_range_and_says_how_long_each_took() -> None:
    component, sizes = nn.Identity(), []

    def run(inputs: Mapping[str, Tensor]) -> Tensor:
        sizes.append(len(inputs["latent"]))
        return inputs["latent"]

    proof = prove(run, component, observed((2, 5)), 1e-4, SUBJECT)
    assert set(sizes) == {2, 5}
    assert (proof.max_difference, proof.tolerance) == (0, 1e-4)
    assert proof.eager_s > 0
    assert proof.cell_s > 0


def test_a_cell_that_is_wrong_at_one_end_alone_is_refused() -> None:
    def run(inputs: Mapping[str, Tensor]) -> Tensor:
        return inputs["latent"] * (1.1 if len(inputs["latent"]) == 5 else 1.0)

    with pytest.raises(OutOfTolerance, match=r"the card allows 0\.0001"):
        prove(run, nn.Identity(), observed((2, 5)), 1e-4, SUBJECT)


def test_an_answer_that_is_no_number_is_refused_whatever_is_allowed() -> None:
    def broken(inputs: Mapping[str, Tensor]) -> Tensor:
        return inputs["latent"] * float("nan")

    with pytest.raises(OutOfTolerance):
        prove(broken, nn.Identity(), observed(), 1e30, SUBJECT)


def test_a_cell_that_mixes_the_rows_of_a_batch_is_seen() -> None:
    def run(inputs: Mapping[str, Tensor]) -> Tensor:
        return inputs["latent"].flip(0)

    with pytest.raises(OutOfTolerance):
        prove(run, nn.Identity(), observed(2), 1e-4, SUBJECT)


def test_a_call_that_keeps_something_between_calls_is_not_steady() -> None:
    class Counts(nn.Module):
        calls = 0

        def forward(self, latent: Tensor) -> Tensor:
            self.calls += 1
            return latent * self.calls

    with pytest.raises(NotExportable, match="keeps something between calls"):
        require_steady(Counts(), observed(), SUBJECT)
    require_steady(nn.Identity(), observed(), SUBJECT)
