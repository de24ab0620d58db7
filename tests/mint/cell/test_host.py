"""This machine is described as torch and the system describe it, without importing torch."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import pytest

from restrike.errors import Refused, Unknown
from restrike.mint.cell import capability
from restrike.mint.cell.host import (
    cpu_target,
    cuda_target,
    numbers,
    parse_target,
    this_host,
    torch_version,
)


def test_the_capability_is_the_one_that_torch_finds() -> None:
    # In a process of its own, for what the environment says to torch is not what the processor is.
    clean = {name: value for name, value in os.environ.items() if name != "ATEN_CPU_CAPABILITY"}
    ask = "import torch; print(torch.backends.cpu.get_cpu_capability(), torch.__version__)"
    done = subprocess.run([sys.executable, "-c", ask], env=clean, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [cpu_target().cpu, torch_version()]


def test_looking_at_the_machine_imports_no_torch() -> None:
    look = (
        "import sys\nfrom restrike.mint.cell.host import cpu_target, this_host\n"
        "this_host(cpu_target())\nassert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", look], check=True)


def test_the_order_is_that_of_the_needs() -> None:
    for machine in ("x86_64", "aarch64"):
        levels = capability.ladder(machine)
        assert not levels[0].needs
        for lower, higher in itertools.pairwise(levels):
            assert lower.needs < higher.needs


def test_one_missing_flag_is_a_lower_capability() -> None:
    avx512 = capability.level("x86_64", "AVX512")[1].needs
    assert capability.highest("x86_64", avx512).name == "AVX512"
    for flag in avx512:
        assert capability.highest("x86_64", avx512 - {flag}).name in ("AVX2", "DEFAULT")
    assert capability.highest("x86_64", frozenset()).name == "DEFAULT"


def test_a_machine_loads_its_own_code_first_then_what_is_lower() -> None:
    host = this_host(cpu_target())
    orders = [target.order for target in host.loadable()]
    assert host.loadable()[0] == host.target
    assert orders == list(range(host.target.order, -1, -1))


def test_a_gpu_is_part_of_the_target() -> None:
    target = cuda_target(9, 0)
    assert (target.kind, target.gpu, target.cpu) == ("cuda", "sm_90", cpu_target().cpu)
    assert {each.gpu for each in this_host(target).loadable()} == {"sm_90"}


def test_a_person_names_a_target() -> None:
    assert parse_target("cpu") == cpu_target()
    assert parse_target("cpu:DEFAULT").order == 0
    assert (parse_target("cuda:sm_90").gpu, parse_target("cuda:sm_90").order) == ("sm_90", 0)


@pytest.mark.parametrize("text", ["", "gpu", "cuda", "cuda:90", "cuda:sm_9", "tpu:v5"])
def test_no_target_is_refused_with_examples(text: str) -> None:
    with pytest.raises(Refused, match="cuda:sm_90"):
        parse_target(text)


def test_an_unknown_capability_is_refused_with_those_that_exist() -> None:
    with pytest.raises(Unknown, match="DEFAULT"):
        parse_target("cpu:AVX9")
    with pytest.raises(Unknown, match="x86_64"):
        capability.ladder("m68k")


def test_the_libraries_have_versions() -> None:
    host = this_host(cpu_target())
    assert host.glibc >= (2, 17)
    assert host.libstdcxx >= (3, 4)


def test_versions_compare_as_numbers() -> None:
    assert numbers("2.36") < numbers("2.100") < numbers("3")
    assert numbers("2.36-beta") == (2, 36)
    assert numbers("unknown") == ()
