"""Solvers by the names that cards and requests use. Makes values; keeps nothing."""

from __future__ import annotations

from restrike.errors import Unknown
from restrike.loops.solvers.base import Solver
from restrike.loops.solvers.euler import Euler
from restrike.loops.solvers.sde import FlowSDE
from restrike.loops.solvers.unipc import UniPC


def solver(name: str) -> Solver:
    """The solver of that name with its default settings; raises Unknown."""
    known: dict[str, Solver] = {each.name: each for each in (Euler(), FlowSDE(), UniPC())}
    if name not in known:
        raise Unknown("solver", name, known)
    return known[name]
