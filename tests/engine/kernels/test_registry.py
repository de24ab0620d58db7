"""The table: which kernel serves which device, by itself and by what is installed."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restrike.engine.kernels import driver
from restrike.engine.kernels.registry import Cell, OpSpec, Place, Registry
from restrike.engine.kernels.table import REGISTRY
from restrike.engine.kernels.target import Target, here, target_of
from restrike.errors import Unknown

VARIANTS = ("reference", "exact", "fast")


def cell(variant: str, kind: str = "any", arch: int = 0, needs: tuple[str, ...] = ()) -> Cell:
    return Cell(op="add", variant=variant, source="a:B", summary="", kind=kind, arch=arch, needs=needs)


def registry(*cells: Cell, absent: str = "") -> Registry:
    return Registry(
        ops=(OpSpec(name="add", summary="adds"),),
        cells=(cell("reference"), *cells),
        installed=lambda package: package != absent,
    )


CUDA = [cell("exact", "cuda", arch) for arch in (75, 80, 90, 100)]


@pytest.mark.parametrize(
    ("arch", "served"), [(70, []), (75, [75]), (80, [80, 75]), (89, [80, 75]), (90, [90, 80, 75])]
)
def test_the_fallback_goes_to_older_kernels_and_then_to_the_reference(arch: int, served: list[int]) -> None:
    found = registry(*CUDA).candidates("add", Target(kind="cuda", arch=arch), "exact")
    assert [each.arch for each in found] == [*served, 0]
    assert found[-1].variant == "reference"


@given(
    cells=st.lists(
        st.builds(
            cell,
            st.sampled_from(VARIANTS[1:]),
            st.sampled_from(["cpu", "cuda"]),
            st.sampled_from([0, 75, 80, 90]),
            st.sampled_from([(), ("triton",)]),
        ),
        max_size=8,
        unique=True,
    ),
    arch=st.sampled_from([70, 75, 80, 86, 90, 120]),
    variant=st.sampled_from(VARIANTS),
    absent=st.sampled_from(["", "triton"]),
)
def test_no_device_ever_gets_a_newer_kernel_nor_one_that_is_not_there(
    cells: list[Cell], arch: int, variant: str, absent: str
) -> None:
    table, target = registry(*cells, absent=absent), Target(kind="cuda", arch=arch)
    found = table.candidates("add", target, variant)
    assert found[-1] == cell("reference")
    for each in found:
        assert each.arch <= arch
        assert each.kind in ("any", "cuda")
        assert absent not in each.needs
        assert VARIANTS.index(each.variant) <= VARIANTS.index(variant)
    arches = [each.arch for each in found[:-1]]
    assert arches == sorted(arches, reverse=True)
    assert {standing.cell for standing in table.standings("add", target, variant)} == set(table.cells)


def test_the_freer_variant_is_the_better_choice_on_one_architecture() -> None:
    both = registry(cell("exact", "cuda", 80), cell("fast", "cuda", 80))
    target = Target(kind="cuda", arch=80)
    assert [each.variant for each in both.candidates("add", target, "fast")] == ["fast", "exact", "reference"]
    assert [each.variant for each in both.candidates("add", target, "exact")] == ["exact", "reference"]
    assert [each.variant for each in both.candidates("add", target, "reference")] == ["reference"]


def test_each_cell_that_does_not_serve_says_why() -> None:
    table = registry(*CUDA[2:], cell("fast", "cuda", 80, ("triton",)), cell("exact", "cpu"), absent="triton")
    reasons = {
        standing.why
        for standing in table.standings("add", Target(kind="cuda", arch=80), "exact")
        if standing.place is Place.NEVER
    }
    assert reasons == {
        "for sm_90 and newer, this is sm_80",
        "for sm_100 and newer, this is sm_80",
        "needs triton, which is not installed",
        "for cpu, this is cuda",
    }


@pytest.mark.parametrize("variant", ["fats", "triton", ""])
def test_an_unknown_variant_is_named_with_those_that_exist(variant: str) -> None:
    with pytest.raises(Unknown, match=f"unknown kernel variant '{variant}'.*exact, fast, reference"):
        REGISTRY.candidates("modulate", Target(kind="cpu"), variant)


def test_an_unknown_op_is_named_with_those_that_exist() -> None:
    with pytest.raises(Unknown, match=r"unknown op 'modulat'.*did you mean 'modulate'"):
        REGISTRY.candidates("modulat", Target(kind="cpu"), "exact")


def test_every_op_of_the_table_has_one_reference_and_kernels_that_can_be_imported() -> None:
    for op in REGISTRY.ops:
        own = [each for each in REGISTRY.cells if each.op == op.name]
        assert [each.variant for each in own].count("reference") == 1
        assert (op.tolerance_eps > 0) == any(each.variant == "fast" for each in own)
        for each in own:
            if all(map(REGISTRY.installed, each.needs)):
                assert callable(each.load().run)


def test_the_table_is_told_without_torch() -> None:
    code = (
        "import sys; from restrike.engine.kernels.table import REGISTRY\n"
        "from restrike.engine.kernels.target import here, target_of\n"
        "for target in (here(), target_of('sm_90')):\n"
        "    for op in REGISTRY.ops: assert REGISTRY.standings(op.name, target, 'fast')\n"
        "heavy = {'torch', 'triton', 'numpy'} & set(sys.modules); assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_devices_have_names() -> None:
    assert str(target_of("cpu")) == "cpu"
    assert target_of("sm_86") == Target(kind="cuda", arch=86)
    assert str(target_of("sm_120")) == "cuda sm_120"
    with pytest.raises(Unknown, match=r"unknown device 'gpu'.*cpu.*sm_90"):
        target_of("gpu")


def test_gpus_are_those_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "capabilities", lambda: (90, 75))
    assert here() == Target(kind="cuda", arch=90)
    assert target_of("cuda:1") == Target(kind="cuda", arch=75)
    with pytest.raises(Unknown, match=r"unknown device 'cuda:2'.*cuda:0, cuda:1"):
        target_of("cuda:2")
    monkeypatch.setattr(driver, "capabilities", lambda: ())
    assert here() == Target(kind="cpu")
    with pytest.raises(Unknown, match="unknown device 'cuda'"):
        target_of("cuda")


def test_a_table_that_served_a_newer_kernel_would_be_seen() -> None:
    table = registry(replace(CUDA[3], arch=0))
    assert table.candidates("add", Target(kind="cuda", arch=70), "exact")[0].variant == "exact"
