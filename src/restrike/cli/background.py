"""The end of a verb that mints in the background: its work is done, and the mint may end too.

Ctrl-C ends the mint; what has landed stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from restrike.mint.adoption.cells import Cells


def wait_for_mints(cells: Cells) -> None:
    """Wait until nothing is minted any more, and say so if that is not at once."""
    if not cells.is_minting:
        return
    typer.echo("minting goes on for later runs; Ctrl-C ends it, and what has landed stays", err=True)
    try:
        cells.wait()
    except KeyboardInterrupt:
        cells.close()
