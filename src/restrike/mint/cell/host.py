"""What this machine is to a cell: its targets, its compile stack and its system libraries.

Looks at files and loads no torch; the libraries are those that a cell's code would be linked with.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

from restrike.errors import Refused
from restrike.mint.cell import capability
from restrike.mint.cell.facts import WRAPPER_EPOCH, Kind, Recipe, Stack, Target
from restrike.mint.cell.header import Version


@dataclass(frozen=True, kw_only=True)
class Host:
    """What decides whether a cell can run in this process. A missing library has the version `()`."""

    target: Target
    torch: str
    triton: str
    python: str
    glibc: Version
    libstdcxx: Version

    def stack(self, recipe: Recipe) -> Stack:
        """The compile stack of a cell that this machine makes, or can load."""
        return Stack(
            recipe=recipe,
            torch=self.torch,
            triton=self.triton if self.target.kind == "cuda" else "",
            python=self.python if recipe == "dynamo" else "",
            epoch=WRAPPER_EPOCH,
        )

    def loadable(self) -> tuple[Target, ...]:
        """The targets whose code this machine runs, the best first."""
        levels = capability.ladder(self.target.machine)[: self.target.order + 1]
        named = [(order, each.name) for order, each in enumerate(levels)]
        return tuple(_target(self.target.kind, self.target.gpu, *each) for each in reversed(named))


def this_host(target: Target) -> Host:
    """This machine, for code of `target`'s kind; raises Refused where torch is not installed."""
    return Host(
        target=target,
        torch=torch_version(),
        triton=_installed("triton"),
        python="{}.{}".format(*platform.python_version_tuple()),
        glibc=_glibc(),
        libstdcxx=_libstdcxx(),
    )


def cpu_target() -> Target:
    """This machine's processor."""
    order, level = _here()
    return _target("cpu", "", order, level.name)


def cuda_target(major: int, minor: int) -> Target:
    """A GPU of this compute capability in this machine, as `torch.cuda.get_device_capability` gives it."""
    order, level = _here()
    return _target("cuda", f"sm_{major}{minor}", order, level.name)


def parse_target(text: str) -> Target:
    """The target that a person names: `cpu`, `cpu:AVX2`, `cuda:sm_90`.

    What is compiled for a GPU elsewhere needs no more of the processor than its kind.

    Raises:
        Unknown, Refused: naming what can be asked for.
    """
    kind, _, name = text.partition(":")
    if kind == "cuda" and re.fullmatch(r"sm_\d{2,3}a?", name):
        return _target("cuda", name, 0, capability.ladder(capability.machine())[0].name)
    if kind == "cpu":
        own = cpu_target()
        return _target("cpu", "", *_named(name)) if name else own
    raise Refused(f"target '{text}': name the processor or a GPU architecture: cpu, cpu:AVX2, cuda:sm_90")


@cache
def torch_version() -> str:
    """torch's version with its build, `2.13.0+cpu`, read from the installed files."""
    try:
        source = Path(str(distribution("torch").locate_file("torch/version.py")))
    except PackageNotFoundError as error:
        raise Refused("torch is not installed, and cells are its code") from error
    found = re.search(r"^__version__ = '([^']+)'", source.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else version("torch")


def _here() -> tuple[int, capability.Level]:
    machine = capability.machine()
    return capability.level(machine, capability.highest(machine, capability.cpu_flags()).name)


def _named(name: str) -> tuple[int, str]:
    order, level = capability.level(capability.machine(), name)
    return order, level.name


def _target(kind: Kind, gpu: str, order: int, name: str) -> Target:
    return Target(kind=kind, machine=capability.machine(), cpu=name, order=order, gpu=gpu)


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _glibc() -> Version:
    try:
        named = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, AttributeError, OSError):  # another C library
        return ()
    return numbers(named.removeprefix("glibc "))


@cache
def _libstdcxx() -> Version:
    """The newest interface of the C++ library that the loader finds: 3.4.30 and the like."""
    try:
        ctypes.CDLL("libstdc++.so.6")
        mapped = Path("/proc/self/maps").read_text(encoding="utf-8")
        path = next(line.split(maxsplit=5)[5] for line in mapped.splitlines() if "/libstdc++.so.6" in line)
        content = Path(path).read_bytes()
    except (OSError, StopIteration):
        return ()
    return max(map(numbers, re.findall(r"GLIBCXX_([\d.]+)\0", content.decode("latin-1"))), default=())


def numbers(text: str) -> Version:
    """A version as numbers that can be compared; anything after them is left out."""
    found = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, found[0].split("."))) if found else ()
