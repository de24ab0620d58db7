"""The CPU capabilities that compiled code may need, from low to high, by torch's names.

Reads what the processor says of itself; never imports torch, and nothing in the environment changes it.
"""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from restrike.errors import Unknown

# GCC's x86-64-v3 and v4: code of a level may use all of its level, so all of it must be there.
_V3 = frozenset(["avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"])
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


@dataclass(frozen=True, kw_only=True)
class Level:
    """One capability: `needs` are the processor's flags, `march` is what a C++ compiler calls it."""

    name: str
    needs: frozenset[str]
    march: str


_LADDERS: dict[str, tuple[Level, ...]] = {
    "x86_64": (
        Level(name="DEFAULT", needs=frozenset(), march="x86-64"),
        Level(name="AVX2", needs=_V3, march="x86-64-v3"),
        Level(name="AVX512", needs=_V4, march="x86-64-v4"),
    ),
    # Code for scalable vectors is compiled for one length, which no flag tells: all take the baseline.
    "aarch64": (Level(name="DEFAULT", needs=frozenset(), march="armv8-a"),),
}


def ladder(machine: str) -> tuple[Level, ...]:
    """The capabilities of a machine's kind, from low to high; raises Unknown for a kind without any."""
    if machine not in _LADDERS:
        raise Unknown("machine", machine, _LADDERS, hint="Cells are not compiled for it.")
    return _LADDERS[machine]


def level(machine: str, name: str) -> tuple[int, Level]:
    """A capability by its name, with its place in the order; raises Unknown."""
    levels = ladder(machine)
    for order, each in enumerate(levels):
        if each.name == name:
            return order, each
    raise Unknown(f"CPU capability of {machine}", name, [each.name for each in levels])


def highest(machine: str, flags: frozenset[str]) -> Level:
    """The highest capability of which a processor with these flags has all, and all below it."""
    found, *above = ladder(machine)
    for each in above:
        if not each.needs <= flags:
            break
        found = each
    return found


def machine() -> str:
    """The kind of machine, by Linux's names."""
    named = platform.machine()
    return {"AMD64": "x86_64", "arm64": "aarch64"}.get(named, named)


@cache
def cpu_flags() -> frozenset[str]:
    """What the first processor says it can do; nothing where the system does not tell."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return frozenset()
    listed = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", text, re.MULTILINE)
    return frozenset(listed[1].split()) if listed else frozenset()
