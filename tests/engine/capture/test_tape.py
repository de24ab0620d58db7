"""The tape: what it notes down of a step, and that it does just that again."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from restrike.engine.capture.proof import difference
from restrike.engine.capture.tape import Tape, TapeBackend
from restrike.loops.contract import Tensors


def taped(run: Callable[[Tensor], Tensor], given: Tensor) -> tuple[Tape, dict[str, Tensor]]:
    """A tape of one function, and the static input that it was made with."""
    inputs = {"x": given.clone()}
    return TapeBackend(torch.device("cpu")).capture(lambda tensors: {"y": run(tensors["x"])}, inputs), inputs


def follows(run: Callable[[Tensor], Tensor], shape: tuple[int, ...] = (4, 6)) -> Tape:
    """A tape whose replay equals eager, bit for bit, on three other inputs."""
    generator = torch.Generator().manual_seed(0)
    tape, inputs = taped(run, torch.randn(shape, generator=generator))
    for _ in range(3):
        inputs["x"].copy_(torch.randn(shape, generator=generator))
        tape.replay()
        assert difference({"y": run(inputs["x"].clone())}, tape.outputs) is None
    return tape


def swapped(x: Tensor) -> Tensor:
    made = torch.empty_like(x)
    made[:2] = x[2:]
    made[2:] = x[:2]
    return made.mul_(2)


def accumulated(x: Tensor) -> Tensor:
    total = torch.zeros(x.shape[1])
    for row in x.unbind():
        total += row
    return total


RUNS: dict[str, Callable[[Tensor], Tensor]] = {
    "elementwise": lambda x: (x * 2 + 1).sigmoid(),
    "views": lambda x: x.t().reshape(2, 12).unflatten(1, (3, 4)).permute(2, 0, 1).flatten(1) + 0,
    "in place, through views": swapped,
    "in place, again and again": accumulated,
    "several results": lambda x: x.sort(dim=1).values + x.max(dim=0).indices,
    "matrices": lambda x: (x @ x.t()).softmax(-1) @ x,
    "a linear layer": lambda x: F.linear(x[None], torch.ones(5, 6) / 3, torch.ones(5) / 7),
    "a convolution": lambda x: F.conv1d(x[None], torch.ones(3, 4, 3) / 7, torch.ones(3) / 11, padding=1),
    "norms": lambda x: F.layer_norm(x, (6,)) + F.rms_norm(x, (6,)),
    "attention": lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]),
    "joined and split": lambda x: torch.cat([part * 2 for part in x.chunk(2)], dim=1),
    "an integer index": lambda x: x[torch.arange(3)] + x[:, torch.arange(2)].sum(),
    "made inside": lambda x: x + torch.arange(6) + torch.ones(4, 1),
    "other dtypes": lambda x: (x.to(torch.bfloat16) * 3).float() + (x > 0) + x.long(),
    "what is given, as it is": lambda x: x,
    "complex": lambda x: torch.view_as_real(torch.view_as_complex(x.reshape(4, 3, 2)) * 1j),
}


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
@pytest.mark.parametrize("name", RUNS)
def test_a_replay_is_what_was_recorded(name: str, mode: Callable[[], torch.no_grad]) -> None:
    with mode():
        follows(RUNS[name])


def test_views_are_resolved_once_and_allocations_are_not_repeated() -> None:
    with torch.inference_mode():
        tape = follows(lambda x: torch.empty(3).fill_(1) + x.reshape(2, 12).t()[:3, 0])
    names = [str(call.func) for call in tape.calls if isinstance(call, partial)]
    assert names == ["aten.fill_.Scalar", "aten.add.out"]


def test_results_are_written_where_they_were() -> None:
    with torch.inference_mode():
        tape, _ = taped(lambda x: x * 2, torch.ones(3))
        place = tape.outputs["y"].data_ptr()
        tape.replay()
        assert tape.outputs["y"].data_ptr() == place


def test_an_overload_that_rounds_otherwise_is_not_used() -> None:
    """A linear layer that writes into `out` rounds before it adds its bias."""
    generator = torch.Generator().manual_seed(0)
    x, weight, bias = (
        torch.randn(shape, generator=generator).bfloat16() for shape in ((2, 64, 64), (64, 64), (64,))
    )
    linear = torch.ops.aten.linear
    with torch.inference_mode():
        assert not torch.equal(
            linear.out(x, weight, bias, out=torch.empty_like(x)), F.linear(x, weight, bias)
        )
        tape, _ = taped(lambda x: F.linear(x, weight, bias), x)
        assert [call.func for call in tape.calls if isinstance(call, partial)] != [linear.out]
        tape.replay()
        assert torch.equal(tape.outputs["y"], F.linear(x, weight, bias))


def test_a_tape_holds_what_it_made_and_nothing_else() -> None:
    with torch.inference_mode():
        weight = torch.ones(100)
        tape, _ = taped(lambda x: (x * weight).reshape(10, 10) + 1, torch.ones(100))
    assert tape.bytes == 2 * 100 * 4
    tape.free()
    assert (tape.bytes, tape.calls, tape.outputs) == (0, (), {})


def test_recording_imports_no_compiler() -> None:
    import subprocess

    program = (
        "import sys, torch\n"
        "from restrike.engine.capture.tape import TapeBackend\n"
        "from restrike.engine.capture.trace import Inspection\n"
        "step = lambda given: {'y': given['x'] * 2}\n"
        "TapeBackend(torch.device('cpu')).capture(step, {'x': torch.ones(2)})\n"
        "with Inspection({}): torch.ones(2) * 2\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_tensors_of_no_elements_are_no_matter() -> None:
    given: Tensors = {"x": torch.ones(0, 3)}
    with torch.inference_mode():
        tape = TapeBackend(torch.device("cpu")).capture(lambda tensors: {"y": tensors["x"] * 2}, given)
        tape.replay()
    assert tape.outputs["y"].shape == (0, 3)
