"""A file appears whole or not at all: written beside its final name, synced, then renamed over it.

Never leaves a partial file under the final name, whatever kills the process.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import time
from contextlib import suppress
from pathlib import Path

from restrike.errors import NotFound, Refused, RestrikeError, Shortfall, typed
from restrike.store.files import sync_folder, write_synced

_STALE_AFTER_S = 3600
"""A temporary file this old has no living writer: writing the bytes of one file takes far less."""


def check_writable(path: str | Path) -> None:
    """Refuse now what `publish` would refuse later, so that minutes of computing are not lost."""
    if "\0" in str(path):
        raise Refused(f"cannot write {str(path)!r}: a name cannot hold a zero byte")
    folder = _target(Path(path)).parent
    try:
        os.stat(path)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise _write_failure(Path(path), error) from error
    if os.path.isdir(path):
        raise Refused(f"cannot write '{path}': it is a folder; name a file in it")
    if not os.path.isdir(folder):
        raise NotFound(f"cannot write '{path}': there is no folder '{folder}'; make it first")
    if not os.access(folder, os.W_OK | os.X_OK) or (os.path.exists(path) and not os.access(path, os.W_OK)):
        raise Refused(f"cannot write '{path}': no permission")


def publish(path: str | Path, data: bytes) -> None:
    """Make `path` hold `data`, atomically and durably, replacing what was there.

    Raises `Refused` (no permission, a folder is in the way), `NotFound` (no such folder) or `Shortfall`
    (no space), each naming `path`.
    """
    path = Path(path)
    check_writable(path)
    target = _target(path)
    prefix = _temporary_prefix(target)
    temporary = target.with_name(f"{prefix}{secrets.token_hex(8)}.part")
    try:
        _remove_stale(target.parent, prefix)
        write_synced(temporary, data)
        os.replace(temporary, target)
        sync_folder(target.parent)
    except OSError as error:
        raise _write_failure(path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _target(path: Path) -> Path:
    """Where the bytes go: a symbolic link is followed, not replaced."""
    return Path(os.path.realpath(path))


def _temporary_prefix(target: Path) -> str:
    """Short whatever the length of the name, and the same for each write of one file."""
    return f".restrike-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}-"


def _remove_stale(folder: Path, prefix: str) -> None:
    """Remove what a killed writer of the same file left behind."""
    oldest = time.time() - _STALE_AFTER_S
    for leftover in folder.glob(f"{prefix}*.part"):
        with suppress(OSError):
            if leftover.stat().st_mtime < oldest:
                leftover.unlink()


def _write_failure(path: Path, error: OSError) -> RestrikeError:
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return Refused(f"cannot write '{path}': no permission")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Shortfall(f"cannot write '{path}': no space left")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return NotFound(f"cannot write '{path}': there is no folder '{path.parent}'; make it first")
    if error.errno == errno.ENAMETOOLONG:
        return Refused(f"cannot write '{path}': the name is too long")
    return typed(error)
