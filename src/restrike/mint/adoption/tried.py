"""Which cells ran on this very machine, where nobody could be hurt. A record and no more."""

from __future__ import annotations

import platform
from contextlib import suppress
from functools import cache
from pathlib import Path

from restrike.errors import RestrikeError
from restrike.keys import digest
from restrike.mint.cell import capability
from restrike.mint.cell.header import Header
from restrike.mint.cell.host import cpu_target, this_host
from restrike.store.files import write_file


class Tried:
    """The record of one store, which several machines may share."""

    def __init__(self, root: Path) -> None:
        self._root = root / "tried"

    def has(self, header: Header) -> bool:
        """Whether this very cell, to its last byte, has run here."""
        return self._path(header).exists()

    def note(self, header: Header) -> None:
        """It has; in a store that cannot be written it will be tried again."""
        with suppress(RestrikeError):
            write_file(self._path(header), b"")

    def _path(self, header: Header) -> Path:
        # The header names the manifest, which names every member.
        return self._root / f"{header.key.hex}-{header.manifest.hex[:16]}-{_machine()}"


@cache
def _machine() -> str:
    """This machine, as far as it can decide whether code runs on it, and its name."""
    host = this_host(cpu_target())
    facts = {
        "name": platform.node(),
        "host": [host.torch, list(host.glibc), list(host.libstdcxx), str(host.target)],
        "flags": sorted(capability.cpu_flags()),
    }
    return digest("machine", "1", facts).hex[:16]
