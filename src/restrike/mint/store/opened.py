"""A cell that was verified, and is held against collection while it is used."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from restrike.errors import typed
from restrike.mint.cell.header import Header
from restrike.mint.cell.manifest import Manifest
from restrike.mint.cell.verify import Opened, members


@dataclass(frozen=True, kw_only=True)
class VerifiedCell:
    """A cell of this store whose every byte was checked; usable until the block ends that opened it."""

    opened: Opened
    manifest: Manifest
    file: BinaryIO = field(repr=False)

    @property
    def header(self) -> Header:
        """What was checked first."""
        return self.opened.header

    def unpack(self, folder: Path) -> None:
        """Write the members into a folder, which is made, for this user alone.

        Every member is checked again on its way, so that what lies there is what was verified.

        Raises:
            CellRefused: the file was written to since.
            Shortfall: no space is left.
            Refused: the folder cannot be written, or holds such files already.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for member, data in members(self.file, self.opened, self.manifest):
                path = folder / member.name
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                with path.open("xb") as written:
                    written.write(data)
        except OSError as error:
            raise typed(error) from error
