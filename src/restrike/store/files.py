"""Files that appear whole or not at all, and copies that share their blocks where the disk can do that.

Nothing here knows what a file means.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from restrike.errors import typed

# ioctl number of FICLONE, the same on all architectures of Linux: _IOW(0x94, 9, int).
_FICLONE = 0x40049409
PARTIAL = f".{'[0-9a-f]' * 16}.part"
"""The names of files that are being written, as a glob: what a killed process leaves."""


def write_synced(path: Path, data: bytes | memoryview) -> None:
    """Write a new file and wait until it is on the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut, where folders can be opened."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def copy_file(source: Path, target: Path) -> None:
    """Make `target` an independent file with the bytes of `source`, replacing what was there, atomically.

    Raises:
        Shortfall: no space is left.
        Refused: the folder cannot be written.
    """

    def copy(partial: Path) -> None:
        with source.open("rb") as read, partial.open("xb") as written:
            if not _reflinked(read.fileno(), written.fileno()):
                shutil.copyfileobj(read, written, length=8 << 20)
            written.flush()
            os.fsync(written.fileno())

    _replace(target, copy)


def write_file(target: Path, data: bytes) -> None:
    """Make `target` hold `data`, atomically and durably; raises as `copy_file`."""
    _replace(target, lambda partial: write_synced(partial, data))
    sync_folder(target.parent)


def swap_file(target: Path, data: bytes) -> None:
    """Make `target` hold `data`, atomically; a power cut may bring back what was there before."""

    def write(partial: Path) -> None:
        partial.write_bytes(data)

    _replace(target, write)


def _replace(target: Path, write: Callable[[Path], None]) -> None:
    """Write beside a file and rename over it; nothing is left on any error."""
    partial = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write(partial)
        os.replace(partial, target)
    except OSError as error:
        raise typed(error) from error
    finally:
        # What fails here has failed above, and that is what is told.
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _reflinked(source: int, target: int) -> bool:
    """Share the blocks of one file with another; False where the file system cannot."""
    try:
        import fcntl
    except ImportError:  # not a POSIX system
        return False
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True
