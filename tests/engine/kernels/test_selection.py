"""Proved, measured, then chosen: what an op runs with, and what it never runs with."""

from __future__ import annotations

import sys
from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from restrike.engine.kernels import measuring
from restrike.engine.kernels.contract import Kernel
from restrike.engine.kernels.ops import guided_euler, modulate
from restrike.engine.kernels.registry import Cell, OpSpec, Registry
from restrike.engine.kernels.selection import Op, _shape_class, target_on
from restrike.engine.kernels.target import Target
from restrike.engine.kernels.workspace import BoundWorkspace
from restrike.errors import Unknown

ran: Counter[str] = Counter()


class Clock:
    """Goes on by what kernels say that they take, and by a microsecond at each look."""

    now_s = 0.0

    def perf_counter(self) -> float:
        """The time."""
        self.now_s += 1e-6
        return self.now_s


clock = Clock()


def kernel(name: str, seconds: float, off: float = 0.0, workspace_bytes: int = 0) -> Kernel:
    """Adds one, in that time, and counts its runs."""

    def run(workspace: Tensor | None, values: Tensor) -> Tensor:
        ran[name] += 1
        assert (0 if workspace is None else len(workspace)) == workspace_bytes
        clock.now_s += seconds
        return values + 1 + off

    return Kernel(run=run, workspace_bytes=lambda shape: workspace_bytes)


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module of the kernels here, and a clock that no other process disturbs."""
    ran.clear()
    kernels = {
        "reference": kernel("reference", 0.002),
        "quick": kernel("quick", 0.001),
        "slow": kernel("slow", 0.004),
        "near": kernel("near", 0.0, off=1e-6),
        "wrong": kernel("wrong", 0.0, off=1e-2),
        "scratching": kernel("scratching", 0.0, workspace_bytes=24),
    }
    monkeypatch.setitem(sys.modules, "kernels_of_a_test", SimpleNamespace(**kernels))
    monkeypatch.setattr(measuring, "time", clock)


def op(*cells: tuple[str, str], variant: str = "exact", kind: str = "cpu") -> Op:
    """An op with kernels by source and variant, the first being the best."""
    listed = [
        Cell(
            op="add",
            variant=promise,
            source=f"kernels_of_a_test:{source}",
            summary="",
            kind=kind,
            arch=-place,
        )
        for place, (source, promise) in enumerate(cells)
    ]
    reference = Cell(op="add", variant="reference", source="kernels_of_a_test:reference", summary="")
    spec = OpSpec(name="add", summary="adds one", tolerance_eps=32)
    return Op("add", Registry(ops=(spec,), cells=(reference, *listed)), variant)


def chosen(made: Op, values: Tensor | None = None) -> str:
    """The kernel that runs once the choice is made."""
    values = torch.zeros(4) if values is None else values
    made(values)
    ran.clear()
    made(values)
    return "+".join(ran)


@pytest.mark.parametrize(
    ("cells", "expected", "why"),
    [
        ([("quick", "exact")], "quick", ["faster"]),
        ([("slow", "exact")], "reference", ["not faster than the reference"]),
        ([("near", "exact")], "reference", ["result 0 differs from the reference in some bits"]),
        ([("slow", "exact"), ("quick", "exact")], "quick", ["not faster than the reference", "faster"]),
        ([("wrong", "exact"), ("slow", "exact")], "reference", None),
        ([], "reference", []),
    ],
)
def test_a_kernel_is_chosen_where_it_is_equal_and_faster(
    cells: list[tuple[str, str]], expected: str, why: list[str] | None
) -> None:
    made = op(*cells)
    assert chosen(made) == expected
    assert why is None or [verdict.why for verdict in made.verdicts] == why


def test_a_fast_kernel_may_be_near_and_serves_only_where_it_is_asked_for() -> None:
    assert chosen(op(("near", "fast"), variant="fast")) == "near"
    assert chosen(op(("near", "fast"), variant="exact")) == "reference"
    far = op(("wrong", "fast"), variant="fast")
    assert chosen(far) == "reference"
    assert "further from the reference than 3.8e-06" in far.verdicts[0].why


def test_the_figures_that_decided_are_kept() -> None:
    made = op(("slow", "exact"), ("quick", "exact"))
    made(torch.zeros(2, 3))
    slow, quick = made.verdicts
    assert (slow.chosen, quick.chosen) == (False, True)
    assert quick.shape == (2, 3)
    assert (quick.device, quick.dtype) == ("cpu", "float32")
    assert slow.timing is not None
    assert slow.timing.ratio == pytest.approx(2.0, rel=0.01)
    assert slow.timing.kernel_s == pytest.approx(0.004, rel=0.01)
    assert slow.timing.reference_s == pytest.approx(0.002, rel=0.01)
    assert slow.timing.pairs == 4, "a budget of 20 ms, a pair of 6"


def test_a_choice_is_made_once_for_each_class_of_shapes() -> None:
    made = op(("quick", "exact"))
    for rows in (4, 5, 6, 7):
        made(torch.zeros(rows, 8))
    assert len(made.verdicts) == 1
    for values in (torch.zeros(2, 16), torch.zeros(40, 8), torch.zeros(4, 8, dtype=torch.float64)):
        made(values)
    assert len(made.verdicts) == 4
    made.choose(torch.zeros(4, 8))  # another thread had asked for it as well
    assert len(made.verdicts) == 4
    assert _shape_class(torch.zeros(4, 8)) != _shape_class(torch.zeros(4, 8, device="meta"))


def test_a_gpu_that_is_not_nvidias_is_of_a_kind_without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    assert target_on(torch.device("cuda")) == Target(kind="other")


@pytest.mark.parametrize(("seconds", "pairs"), [(0.0001, 15), (0.003, 4), (60.0, 3)])
def test_measuring_is_bounded_in_time(seconds: float, pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = sys.modules["kernels_of_a_test"]
    monkeypatch.setattr(kernels, "reference", kernel("reference", seconds))
    monkeypatch.setattr(kernels, "slow", kernel("slow", seconds))
    made = op(("slow", "exact"))
    made(torch.zeros(4))
    timing = made.verdicts[0].timing
    assert timing is not None
    assert timing.pairs == pairs


def test_where_no_kernel_runs_nothing_is_looked_up() -> None:
    made = op(("quick", "exact"), kind="cuda")
    assert chosen(made) == "reference"
    assert not made._chosen


def test_the_reference_runs_under_autograd() -> None:
    made = op(("quick", "exact"))
    assert chosen(made) == "quick"
    ran.clear()
    made(torch.zeros(4, requires_grad=True)).sum().backward()
    assert set(ran) == {"reference"}
    with torch.no_grad():
        made(torch.zeros(4, requires_grad=True))
    assert ran["quick"] == 1


class Recording(TorchDispatchMode):
    """Notes the operations that run."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def test_nothing_is_tried_while_a_step_is_recorded() -> None:
    made, values = op(("quick", "exact")), torch.zeros(4)
    with Recording() as recording:
        made(values)
    assert ran == {"reference": 1}
    assert recording.seen == ["aten.add.Tensor", "aten.add.Tensor"]
    assert not made.verdicts
    assert chosen(made) == "quick"
    with Recording():
        made(values)
    assert ran["quick"] == 2, "what was chosen before is recorded too"


def test_a_kernel_gets_the_workspace_that_it_declares() -> None:
    made, values = op(("scratching", "exact")), torch.zeros(4)
    assert chosen(made, values) == "scratching"
    workspace = BoundWorkspace()
    with workspace.warming():
        made(values)
    assert workspace.size_bytes > 24
    workspace.check()


def test_an_unknown_variant_is_refused_when_it_is_used() -> None:
    with pytest.raises(Unknown, match="unknown kernel variant 'quick'"):
        op(("quick", "exact"), variant="quick")(torch.zeros(4))


def test_the_variant_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    from restrike.engine.kernels import selection

    for variant, expected in (("reference", "reference"), ("exact", "reference"), ("fast", "near")):
        monkeypatch.setattr(selection, "settings", lambda variant=variant: SimpleNamespace(kernels=variant))
        made = op(("near", "fast"))
        made._variant = None
        assert chosen(made) == expected


def test_a_bad_variant_in_the_environment_is_refused_by_name() -> None:
    from restrike.settings import settings_of

    assert settings_of({}).kernels == "exact"
    assert settings_of({"RESTRIKE_KERNELS": "fast"}).kernels == "fast"
    with pytest.raises(Unknown, match=r"unknown kernel variant 'triton'.*exact, fast, reference"):
        settings_of({"RESTRIKE_KERNELS": "triton"})


def test_the_ops_of_this_process_compute_what_their_references_do() -> None:
    latent, one, other = torch.randn(3, 1, 4, 8, 8).unbind()
    velocity, following = guided_euler(latent, one, other, torch.tensor(3.0), torch.tensor(-0.1))
    assert torch.equal(velocity, other + 3.0 * (one - other))
    assert torch.equal(following, latent + torch.tensor(-0.1) * velocity)
    assert target_on(torch.device("cpu")) == Target(kind="cpu")


def test_an_exported_graph_holds_the_reference_alone() -> None:
    class Modulated(torch.nn.Module):
        """One modulation."""

        def forward(self, hidden: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
            return modulate(hidden, shift, scale)

    arguments = (torch.randn(1, 4, 8), torch.randn(1, 1, 8), torch.randn(1, 1, 8))
    exported = torch.export.export(Modulated(), arguments)
    names = [str(node.target) for node in exported.graph.nodes if node.op == "call_function"]
    assert names == ["aten.layer_norm.default", "aten.add.Tensor", "aten.addcmul.default"]


def test_what_was_chosen_before_is_not_exported() -> None:
    made, values = op(("quick", "exact")), torch.zeros(4)
    assert chosen(made) == "quick"

    class Added(torch.nn.Module):
        """One op."""

        def forward(self, given: Tensor) -> Tensor:
            return made(given)

    ran.clear()
    torch.export.export(Added(), (values,), strict=False)
    assert set(ran) == {"reference"}
