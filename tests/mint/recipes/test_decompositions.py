"""What is taken apart before a processor's compiler sees it: equal values, and nothing of the key changes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from restrike.mint.cell.host import cpu_target
from restrike.mint.graph import graph_digest
from restrike.mint.recipes.decompositions import decomposed, gelu

# torch, of its own use of what it will drop.
pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")

CPU = cpu_target()
GPU = replace(CPU, kind="cuda", gpu="sm_90")


class AfterConvolution(nn.Module):
    """A linear layer on what a convolution leaves: its rows do not lie in order."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv3d(3, 5, 3, padding=1)
        self.expand = nn.Linear(5, 7)

    def forward(self, hidden_BCTHW: Tensor) -> Tensor:
        return F.gelu(self.expand(self.conv(hidden_BCTHW).permute(0, 2, 3, 4, 1)), approximate="tanh")


def traced(module: nn.Module, value: Tensor, low: int = 1) -> ExportedProgram:
    high = value.shape[0]
    batch = Dim("batch", min=low, max=high) if low < high else None
    with torch.no_grad():
        return torch.export.export(
            module.eval(), (value,), dynamic_shapes=({0: batch},) if batch else None, strict=False
        )


def operations(program: ExportedProgram) -> Counter[str]:
    return Counter(str(node.target) for node in program.graph.nodes if node.op == "call_function")


def test_rows_that_do_not_lie_in_order_are_multiplied_at_once() -> None:
    torch.manual_seed(0)
    module, value = AfterConvolution(), torch.randn(3, 3, 2, 4, 4)
    program = traced(module, value)
    # As it comes the compiler would make a batch of products of it, one for each row of cells.
    assert operations(program.run_decompositions())["aten.bmm.default"] == 1
    found = decomposed(program, CPU)
    assert operations(found)["aten.mm.default"] == 1
    assert not operations(found).keys() & {"aten.linear.default", "aten.bmm.default", "aten.addmm.default"}
    torch.testing.assert_close(found.module()(value), module(value))


def test_a_range_of_batches_stays_whole() -> None:
    torch.manual_seed(0)
    module = AfterConvolution()
    found = decomposed(traced(module, torch.randn(6, 3, 2, 4, 4), low=2), CPU)
    assert [(int(each.lower), int(each.upper)) for each in found.range_constraints.values()] == [(2, 6)]
    for batch in (2, 5):
        value = torch.randn(batch, 3, 2, 4, 4)
        torch.testing.assert_close(found.module()(value), module(value))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_bias_is_apart_unless_it_would_be_rounded_twice(dtype: torch.dtype, bias: bool) -> None:
    torch.manual_seed(0)
    module, value = nn.Linear(6, 4, bias=bias).to(dtype), torch.randn(2, 3, 6).to(dtype)
    found = decomposed(traced(module, value), CPU)
    fused = bias and dtype is torch.bfloat16
    assert operations(found)["aten.addmm.default" if fused else "aten.mm.default"] == 1
    torch.testing.assert_close(found.module()(value), module(value))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_the_gelu_by_a_sigmoid_is_the_gelu_by_a_tanh(dtype: torch.dtype) -> None:
    value = torch.linspace(-12, 12, 4801).to(dtype)
    found, theirs = gelu(value, approximate="tanh"), F.gelu(value, approximate="tanh")
    assert found.dtype is dtype
    torch.testing.assert_close(found, theirs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_gelu_by_a_sigmoid_is_as_exact_as_by_a_tanh(dtype: torch.dtype) -> None:
    value = torch.linspace(-12, 12, 4801).to(dtype)
    found, theirs = gelu(value, approximate="tanh"), F.gelu(value, approximate="tanh")
    exact = F.gelu(value.double(), approximate="tanh")
    assert (found - exact).abs().max() <= (theirs - exact).abs().max() * 1.5


def test_the_gelu_of_the_error_function_is_left_alone() -> None:
    found = decomposed(traced(nn.GELU(), torch.randn(2, 3)), CPU)
    assert operations(found) == {"aten.gelu.default": 1}


def test_the_program_that_decides_the_key_stays_as_it_was() -> None:
    program = traced(AfterConvolution(), torch.randn(1, 3, 2, 4, 4))
    before = graph_digest(program)
    assert graph_digest(decomposed(program, CPU)) != before
    assert graph_digest(program) == before


def test_a_gpu_gets_it_as_it_was_traced() -> None:
    program = traced(AfterConvolution(), torch.randn(1, 3, 2, 4, 4))
    assert decomposed(program, GPU) is program
