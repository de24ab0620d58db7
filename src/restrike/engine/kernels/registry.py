"""Which kernels an op has and which of them may serve a device. Imports neither torch nor any kernel.

The fallback is monotone: a device gets kernels of its own architecture, then of older ones, then the portable
reference, and never one of a newer architecture.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from importlib.util import find_spec

from restrike.engine.kernels.contract import Kernel
from restrike.engine.kernels.target import Target
from restrike.errors import Unknown
from restrike.settings import KERNEL_VARIANTS

ANY = "any"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One entry of the table; `source` is `module:attribute` of its `Kernel`, imported when it is used.

    `arch` is the oldest architecture that it runs on, `needs` the packages that must be installed.
    """

    op: str
    variant: str
    source: str
    summary: str
    kind: str = ANY
    arch: int = 0
    needs: tuple[str, ...] = ()

    @property
    def device(self) -> str:
        """Where it runs, for a person."""
        return str(Target(kind=self.kind, arch=self.arch))

    def load(self) -> Kernel:
        """Import it."""
        module, _, attribute = self.source.partition(":")
        return getattr(import_module(module), attribute)


class Place(Enum):
    """What a cell is to a device."""

    FIRST = "first choice"
    NEXT = "if those above do not pay"
    NEVER = "not here"


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What a cell is to one device, and why."""

    cell: Cell
    place: Place
    why: str


@dataclass(frozen=True, kw_only=True)
class OpSpec:
    """An op: what it computes, and how far a `fast` kernel may be from the reference.

    Each result may differ by `tolerance_eps` machine epsilons of its dtype, as well absolutely as relative to
    itself; 0 where there is no fast kernel.
    """

    name: str
    summary: str
    tolerance_eps: int = 0


def installed(package: str) -> bool:
    """Whether a package is there, without importing it."""
    return find_spec(package) is not None


@dataclass(frozen=True, kw_only=True)
class Registry:
    """All ops and all cells."""

    ops: tuple[OpSpec, ...]
    cells: tuple[Cell, ...]
    installed: Callable[[str], bool] = installed

    def op(self, name: str) -> OpSpec:
        """An op by name; raises Unknown."""
        known = {op.name: op for op in self.ops}
        if name not in known:
            raise Unknown("op", name, known)
        return known[name]

    def reference(self, op: str) -> Cell:
        """The portable cell of an op."""
        return next(cell for cell in self.cells if cell.op == op and cell.variant == "reference")

    def candidates(self, op: str, target: Target, variant: str) -> tuple[Cell, ...]:
        """The cells that may serve a device, best first; the last is the reference.

        Raises:
            Unknown: no such op, or no such variant.
        """
        standings = self.standings(op, target, variant)
        return tuple(standing.cell for standing in standings if standing.place is not Place.NEVER)

    def standings(self, op: str, target: Target, variant: str) -> tuple[Standing, ...]:
        """What each cell of an op is to a device: those that may serve, best first, then the others."""
        self.op(op)
        rank = _rank(variant)
        own = [cell for cell in self.cells if cell.op == op]
        reasons = {cell: self._obstacle(cell, target, rank) for cell in own}
        serving = sorted((cell for cell in own if not reasons[cell]), key=_preference, reverse=True)
        places = [Place.FIRST, *[Place.NEXT] * len(serving)]
        return (
            *(
                Standing(cell=cell, place=place, why=_merit(cell, target))
                for cell, place in zip(serving, places, strict=False)
            ),
            *(Standing(cell=cell, place=Place.NEVER, why=reasons[cell]) for cell in own if reasons[cell]),
        )

    def _obstacle(self, cell: Cell, target: Target, rank: int) -> str:
        """Why a cell can not serve the device; empty when it can."""
        if cell.kind not in (ANY, target.kind):
            return f"for {cell.kind}, this is {target.kind}"
        if cell.arch > target.arch:
            return f"for sm_{cell.arch} and newer, this is sm_{target.arch}"
        missing = [package for package in cell.needs if not self.installed(package)]
        if missing:
            return f"needs {', '.join(missing)}, which is not installed"
        if _rank(cell.variant) > rank:
            return f"{cell.variant}; only {KERNEL_VARIANTS[rank]} is asked for"
        return ""


def _rank(variant: str) -> int:
    if variant not in KERNEL_VARIANTS:
        raise Unknown("kernel variant", variant, KERNEL_VARIANTS)
    return KERNEL_VARIANTS.index(variant)


def _preference(cell: Cell) -> tuple[bool, int, int]:
    return cell.kind != ANY, cell.arch, _rank(cell.variant)


def _merit(cell: Cell, target: Target) -> str:
    if cell.kind == ANY:
        return "portable; serves whatever no other kernel serves better"
    origin = f"made for sm_{cell.arch}" if cell.arch else f"made for {cell.kind}"
    older = " (older)" if cell.arch < target.arch else ""
    promise = "bit for bit" if cell.variant == "exact" else "within its tolerance"
    return f"{origin}{older}; where it equals the reference {promise} and measures faster"
