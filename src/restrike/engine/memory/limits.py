"""How much memory an engine may use on a device, and why so much: asked for, set, or what is free there.

It asks the system and changes nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from restrike.engine.memory.sizes import shown
from restrike.errors import Refused
from restrike.settings import settings

_UNTOLD_BYTES = 8 << 30
_LIMITS = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
"""Where each version of cgroups says what a group may take, and what it has."""
_KEPT_FOR_KERNELS = 0.05
"""The share of a GPU that no tensor accounts for: workspaces of libraries, gaps of the allocator."""


@dataclass(frozen=True, kw_only=True)
class Limit:
    """So many bytes, and where the number comes from, for a person."""

    size_bytes: int
    why: str

    def __str__(self) -> str:
        return f"{shown(self.size_bytes)} ({self.why})"


def limit_of(device: torch.device, asked_bytes: int | None = None) -> Limit:
    """The limit on a device: as asked for, else RESTRIKE_MEMORY, else what is free there now.

    Raises:
        Refused: it is not positive.
    """
    if asked_bytes is not None:
        if asked_bytes <= 0:
            raise Refused(f"memory_limit_bytes={asked_bytes}: an engine needs memory; leave it out for all")
        return Limit(size_bytes=asked_bytes, why="memory_limit_bytes of the engine")
    set_bytes = settings().memory_limit_bytes
    if set_bytes is not None:
        return Limit(size_bytes=set_bytes, why="RESTRIKE_MEMORY")
    return _free(device)


def _free(device: torch.device) -> Limit:
    if device.type == "cuda":
        gc.collect()  # An engine that was let go may still lie in a cycle.
        free_bytes, _ = torch.cuda.mem_get_info(device)
        # What torch keeps of freed tensors is free to it.
        free_bytes += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        kept = int(free_bytes * (1 - _KEPT_FOR_KERNELS))
        return Limit(size_bytes=kept, why=f"95 % of what was free on {device}")
    if device.type == "mps":
        return Limit(size_bytes=torch.mps.recommended_max_memory(), why="what Metal recommends")
    free_bytes = main_memory_free_bytes()
    if free_bytes is None:
        return Limit(size_bytes=_UNTOLD_BYTES, why="assumed, this system does not tell what is free")
    return Limit(size_bytes=free_bytes, why="the main memory that was free")


def main_memory_free_bytes(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """What this process may still take of main memory: the least of what the machine and its cgroups leave.

    None where the system does not tell. The file cache counts as free, for it yields.
    """
    groups = _groups(proc, cgroups)
    found = [*_told(proc, "MemAvailable:"), *(room for folder in groups for room in _room(folder))]
    return max(min(found), 0) if found else None


def main_memory_bytes(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """What this process could take of main memory if nobody else took any; None where that is not told."""
    limits = (folder / name for folder in _groups(proc, cgroups) for name, _ in _LIMITS)
    found = [*_told(proc, "MemTotal:"), *(most for file in limits if (most := _number(file)) is not None)]
    return min(found) if found else None


def _told(proc: Path, name: str) -> Iterator[int]:
    for line in _lines(proc / "meminfo"):
        if line.startswith(name):
            yield int(line.split()[1]) * 1024


def _groups(proc: Path, cgroups: Path) -> Iterator[Path]:
    """The cgroup of this process and those around it, in both versions of the interface."""
    for line in _lines(proc / "self" / "cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "memory"):
            top = cgroups / controllers
            folder = top / path.lstrip("/")
            yield from (each for each in (folder, *folder.parents) if each.is_relative_to(top))


def _room(folder: Path) -> Iterator[int]:
    for limit, used in _LIMITS:
        most, taken = _number(folder / limit), _number(folder / used)
        if most is not None and taken is not None:
            yield most - taken + _file_cache(folder)


def _file_cache(folder: Path) -> int:
    entries = dict(line.split(maxsplit=1) for line in _lines(folder / "memory.stat"))
    return int(entries.get("total_inactive_file", entries.get("inactive_file", 0)))


def _number(file: Path) -> int | None:
    """The number in a file; None when there is none, as for `max`."""
    text = "".join(_lines(file)).strip()
    return int(text) if text.isdigit() else None


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return []
