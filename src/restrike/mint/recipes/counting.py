"""Counts what compilers did in a process; a process that adopts must have compiled nothing."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from restrike.errors import Crashed
from restrike.mint.cell.facts import Recipe

LIBRARIES = "libraries"


@dataclass(frozen=True, kw_only=True)
class Compilations:
    """Graphs taken from a cache, graphs compiled, and libraries built that no bundle brought."""

    hits: int
    graphs: int
    libraries: int


def compilations(members: Path | None) -> Compilations:
    """What was compiled in this process beside what came with `members`. Loads no compiler to find out."""
    counted = _counters()
    given = set() if members is None else {library.name for library in libraries(members / LIBRARIES)}
    made = {library.name for library in libraries(cache_folder())} - given if counted else set()
    return Compilations(
        hits=counted.get("fxgraph_cache_hit", 0),
        graphs=counted.get("fxgraph_cache_miss", 0) + counted.get("fxgraph_cache_bypass", 0),
        libraries=len(made),
    )


def require_nothing_compiled(recipe: Recipe, members: Path) -> None:
    """Raise Crashed, with the counts, if this process compiled, or if a bundle was not what it ran on."""
    found = compilations(members)
    if found.graphs or found.libraries or (recipe == "dynamo" and not found.hits):
        raise Crashed(
            f"{found.graphs} graphs and {found.libraries} libraries were compiled anew; "
            f"{found.hits} graphs were taken from the bundle"
        )


def cache_folder() -> Path:
    """Where torch's compiler keeps what it made."""
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    return Path(cache_dir())


def libraries(folder: Path) -> list[Path]:
    """All shared libraries under a folder, in the order of their names."""
    return sorted(folder.rglob("*.so"))


def _counters() -> Mapping[str, int]:
    module = sys.modules.get("torch._dynamo.utils")
    return {} if module is None else module.counters["inductor"]
