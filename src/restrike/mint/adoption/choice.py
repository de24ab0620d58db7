"""What a person asks of cells, and what an engine gets for it. Imports little: most ask for nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, get_args

from restrike.engine.compiled.modes import OFF, Mode
from restrike.errors import Refused, Unknown
from restrike.settings import settings

if TYPE_CHECKING:
    from restrike.mint.adoption.cells import Cells

AUTO: Mode = "auto"
BACKGROUND = "background"
MINTS = (OFF, BACKGROUND)


def checked_cells(mode: str | None, mint: str | None) -> Mode:
    """How cells are used, `auto` where nothing is said.

    Raises:
        Unknown: no such way to use cells, or no such time to mint.
        Refused: both cannot be.
    """
    found = next((each for each in get_args(Mode) if each == (mode or AUTO)), None)
    if found is None:
        hint = "A place of cells is named by RESTRIKE_CELLS." if "/" in str(mode) else ""
        raise Unknown("way to use cells", str(mode), get_args(Mode), hint=hint)
    if mint is not None and mint not in MINTS:
        raise Unknown("time to mint", mint, MINTS)
    if mint == BACKGROUND and found != AUTO:
        raise Refused(f"mint background serves eager until it is done, and cells {found} forbids that")
    return found


def cells_for(mode: str | None, mint: str | None) -> Cells | None:
    """The cells of this process's settings for an engine; None where none are wanted, or there are none.

    Raises:
        Unknown, Refused: as `checked_cells`; or no second tier can be where RESTRIKE_CELLS says.
    """
    chosen, found = checked_cells(mode, mint), settings()
    root = found.store / "cells"
    is_asked = mode is not None or mint == BACKGROUND
    if chosen == OFF or not (is_asked or found.cells or _kept(root)):
        return None
    from restrike.mint.adoption.cells import Cells
    from restrike.mint.store.store import CellStore
    from restrike.mint.store.tier import Tier

    tier = Tier(found.cells, setting="RESTRIKE_CELLS") if found.cells else None
    return Cells(CellStore(root), mode=chosen, asked=is_asked, tier=tier, mint=mint == BACKGROUND)


def cells_in_reach(mode: str | None) -> tuple[str, ...]:
    """The keys of the cells that are kept here and may answer: what an exact match of results must know."""
    return () if mode == OFF else _kept(settings().store / "cells")


def _kept(root: Path) -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in (root / "sealed").glob("*.cell")))
