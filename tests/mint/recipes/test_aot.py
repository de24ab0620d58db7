"""The portable recipe: what is compiled for a processor uses that processor's instructions and no others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from torch._inductor import cpu_vec_isa

from restrike.mint.cell.facts import Target
from restrike.mint.recipes.aot import clamp

X86 = Target(kind="cpu", machine="x86_64", cpu="AVX512", order=2, gpu="")
KNOWN = ["avx512 avx512_vnni amx_tile", "avx512 avx512_vnni", "avx512", "avx2", "asimd"]


@pytest.mark.parametrize(
    ("target", "kept"),
    [
        (X86, ["avx512"]),
        (replace(X86, cpu="AVX2", order=1), ["avx2"]),
        (replace(X86, cpu="DEFAULT", order=0), []),
        (replace(X86, machine="aarch64", cpu="DEFAULT", order=0), ["asimd"]),
    ],
)
def test_the_compiler_is_left_the_instructions_of_the_target(
    monkeypatch: pytest.MonkeyPatch, target: Target, kept: list[str]
) -> None:
    monkeypatch.setattr(cpu_vec_isa, "supported_vec_isa_list", list(KNOWN))
    clamp(target)
    assert cpu_vec_isa.supported_vec_isa_list == kept
