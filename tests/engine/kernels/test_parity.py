"""Every kernel that runs here against its reference: bit for bit, at any batch, layout and thread count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from restrike.engine.kernels import reference
from restrike.engine.kernels.measuring import difference
from restrike.engine.kernels.registry import Cell
from restrike.engine.kernels.samples import samples
from restrike.engine.kernels.table import REGISTRY
from restrike.loops import ops

CPU = torch.device("cpu")
HERE = [cell for cell in REGISTRY.cells if cell.kind == "cpu"]
REFERENCE: dict[str, Any] = {
    "guided_euler": ops.guided_euler,
    "sde_step": ops.sde_step,
    "modulate": reference.modulate,
    "rms_rotary": reference.rms_rotary,
}
every_cell = pytest.mark.parametrize("cell", HERE, ids=lambda cell: cell.op)


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """That many threads of torch."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def fault(cell: Cell, arguments: tuple[Any, ...]) -> str:
    copies = [each.clone() if isinstance(each, Tensor) else each for each in arguments]
    expected = REFERENCE[cell.op](*arguments)
    found = cell.load().run(None, *arguments)
    for own, copy in zip(arguments, copies, strict=True):
        assert not isinstance(own, Tensor) or torch.equal(own, copy), "an argument was written to"
    return difference(REGISTRY.op(cell.op), cell.variant == "exact", expected, found)


@every_cell
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_at_the_sizes_of_real_models(cell: Cell, dtype: torch.dtype, threads: int) -> None:
    for sample in samples(cell.op, CPU, dtype)[:2]:
        assert fault(cell, sample.arguments) == "", sample.label


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def channels_last(values: Tensor) -> Tensor:
    """The same values with channels innermost in memory, as the embedded model's velocity has them."""
    return values.movedim(1, -1).contiguous().movedim(-1, 1)


SHAPES = st.tuples(
    st.integers(1, 3), st.integers(1, 4), st.integers(1, 5), st.integers(1, 9), st.integers(1, 9)
)


def number(seed: int, batch: int, value: float, column: bool) -> Tensor:
    return value + normal(seed, batch, 1, 1, 1, 1).abs() if column else torch.tensor(value)


@given(
    shape=SHAPES, seed=st.integers(0, 999), column=st.booleans(), permuted=st.booleans(), half=st.booleans()
)
@settings(max_examples=60, deadline=None)
def test_guided_euler(shape: tuple[int, ...], seed: int, column: bool, permuted: bool, half: bool) -> None:
    cell = next(cell for cell in HERE if cell.op == "guided_euler")
    latent, *branches = (normal(seed + index, *shape) for index in range(3))
    branches = [channels_last(each) if permuted else each for each in branches]
    branches = [each.bfloat16() if half else each for each in branches]
    numbers = [number(seed, shape[0], value, column) for value in (5.0, -0.1)]
    assert fault(cell, (latent, *branches, *numbers)) == ""


@given(shape=SHAPES, seed=st.integers(0, 999), column=st.booleans(), permuted=st.booleans())
@settings(max_examples=60, deadline=None)
def test_sde_step(shape: tuple[int, ...], seed: int, column: bool, permuted: bool) -> None:
    cell = next(cell for cell in HERE if cell.op == "sde_step")
    latent, velocity, noise = (normal(seed + index, *shape) for index in range(3))
    velocity = channels_last(velocity) if permuted else velocity
    numbers = [number(seed, shape[0], value, column) for value in (0.9, -0.1, 0.2, 1.1)]
    assert fault(cell, (latent, velocity, noise, *numbers)) == ""


@given(
    batch=st.integers(1, 3),
    tokens=st.integers(1, 70),
    heads=st.integers(1, 5),
    pairs=st.sampled_from([1, 3, 6, 8, 16, 17, 32, 64]),
    shared=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)
@settings(max_examples=60, deadline=None)
def test_rms_rotary(
    batch: int, tokens: int, heads: int, pairs: int, shared: bool, dtype: torch.dtype
) -> None:
    cell = next(cell for cell in HERE if cell.op == "rms_rotary")
    width = 2 * pairs * heads
    angle = normal(tokens, 1 if shared else batch, tokens, 1, pairs).repeat_interleave(2, dim=-1)
    hidden, weight = normal(heads, batch, tokens, width).to(dtype), normal(pairs, width).to(dtype)
    assert fault(cell, (hidden, weight, angle.cos(), angle.sin(), 1e-6, heads)) == ""


@every_cell
def test_a_kernel_off_by_one_bit_would_be_seen(cell: Cell) -> None:
    arguments = samples(cell.op, CPU)[0].arguments

    class Wrong(Cell):
        """Its first result is one unit in the last place too large somewhere."""

        def load(self) -> Any:
            def run(workspace: None, *arguments: Any) -> Any:
                results = REFERENCE[cell.op](*arguments)
                first = results[0] if isinstance(results, tuple) else results
                first.view(-1)[7] = first.view(-1)[7].nextafter(torch.tensor(99.0))
                return results

            return replace(cell.load(), run=run)

    assert "differs from the reference in some bits" in fault(Wrong(**vars(cell)), arguments)


def test_the_rotary_turn_by_its_formula() -> None:
    hidden, weight = normal(1, 1, 3, 8), normal(2, 8)
    angle = normal(3, 1, 3, 1, 2).repeat_interleave(2, dim=-1)
    found = reference.rms_rotary(hidden, weight, angle.cos(), angle.sin(), 1e-6, 2)
    rooted = (hidden.double().square().mean(-1, keepdim=True) + 1e-6).sqrt()
    pairs = torch.view_as_complex((hidden.double() / rooted * weight).view(1, 3, 2, 2, 2))
    turned = torch.view_as_real(pairs * torch.polar(torch.ones(()).double(), angle[..., 0::2].double()))
    torch.testing.assert_close(found, turned.flatten(-2).float())


def test_modulation_by_its_formula() -> None:
    hidden, shift, scale = normal(1, 2, 3, 8), normal(2, 2, 1, 8), normal(3, 2, 1, 8)
    deviation = (hidden.double().var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
    expected = (hidden - hidden.mean(-1, keepdim=True)) / deviation * (1 + scale) + shift
    torch.testing.assert_close(reference.modulate(hidden, shift, scale), expected.float())
