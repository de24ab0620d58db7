"""The device that a kernel is chosen for: its kind and its architecture, told without importing torch."""

from __future__ import annotations

import re
from dataclasses import dataclass

from restrike.engine.kernels import driver
from restrike.errors import Unknown

KINDS = ("cpu", "cuda", "mps")


@dataclass(frozen=True, kw_only=True)
class Target:
    """`arch` is ten times the compute capability of an NVIDIA GPU, and 0 where none are told apart."""

    kind: str
    arch: int = 0

    def __str__(self) -> str:
        return f"{self.kind} sm_{self.arch}" if self.arch else self.kind


def here() -> Target:
    """The best device of this machine that a driver tells of: the first NVIDIA GPU, else the CPU."""
    found = driver.capabilities()
    return Target(kind="cuda", arch=found[0]) if found else Target(kind="cpu")


def target_of(name: str) -> Target:
    """A device by name: `cpu`, `mps`, `cuda`, `cuda:1`, or an architecture that need not be here, `sm_90`.

    Raises:
        Unknown: no such device, or no such GPU on this machine.
    """
    if named := re.fullmatch(r"sm_(\d{2,3})", name):
        return Target(kind="cuda", arch=int(named[1]))
    kind, _, index = name.partition(":")
    if kind in ("cpu", "mps") and not index:
        return Target(kind=kind)
    gpus = driver.capabilities()
    if kind == "cuda" and (index or "0").isdecimal() and int(index or 0) < len(gpus):
        return Target(kind="cuda", arch=gpus[int(index or 0)])
    known = [*(f"cuda:{index}" for index in range(len(gpus))), "cpu", "mps"]
    raise Unknown("device", name, known, hint="Or an architecture such as sm_90.")
