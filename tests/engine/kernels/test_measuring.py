"""What makes a kernel right: it gives the bits, the form and the layout that it promises."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from restrike.engine.kernels.measuring import difference
from restrike.engine.kernels.registry import OpSpec

SPEC = OpSpec(name="add", summary="adds one", tolerance_eps=4)
ONES = torch.ones(2, 3)


@pytest.mark.parametrize(
    "other",
    [ONES[:1].expand(4, 3), ONES.double(), torch.ones(3, 2).t(), torch.ones(2, 6)[:, ::2]],
    ids=["shape", "dtype", "strides", "spread"],
)
@pytest.mark.parametrize("exact", [True, False])
def test_another_form_or_layout_breaks_the_promise(exact: bool, other: Tensor) -> None:
    told = difference(SPEC, exact, (ONES, ONES), (ONES, other))
    assert told == "result 1 has another shape, dtype or strides"


@pytest.mark.parametrize("exact", [True, False])
def test_the_stride_of_an_axis_of_one_place_is_anybodys(exact: bool) -> None:
    assert difference(SPEC, exact, torch.ones(1, 3), torch.ones(2, 3)[:1].as_strided((1, 3), (7, 1))) == ""


@pytest.mark.parametrize("value", [0.0, math.nan, math.inf, 1.0])
@pytest.mark.parametrize("exact", [True, False])
def test_equal_bits_keep_it_even_where_they_are_no_numbers(exact: bool, value: float) -> None:
    assert difference(SPEC, exact, torch.tensor([value]), torch.tensor([value])) == ""


def test_a_zero_of_the_other_sign_has_other_bits() -> None:
    zeros = torch.tensor([0.0]), torch.tensor([-0.0])
    assert "in some bits" in difference(SPEC, True, *zeros)
    assert difference(SPEC, False, *zeros) == ""


def test_near_is_near_in_terms_of_the_dtype() -> None:
    eps = torch.finfo(torch.float32).eps
    assert difference(SPEC, False, torch.ones(()), torch.ones(()) + 4 * eps) == ""
    assert "further from the reference" in difference(SPEC, False, torch.ones(()), torch.ones(()) + 16 * eps)
    assert "further from the reference" in difference(SPEC, False, torch.ones(1), torch.tensor([math.nan]))
