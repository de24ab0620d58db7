"""Remembers the digests of files between processes, so that an unchanged file is hashed once.

One small file for each path that was ever hashed, replaced whole: any number of processes share it without
a lock, and damage costs one entry. It is only ever a saving: nothing here fails for want of a memo.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from restrike.errors import Refused
from restrike.keys.values import Digest

_log = logging.getLogger(__name__)

# A file can be written again within one tick of its file system's clock and look untouched. Until a tick
# has surely passed, its times prove nothing. Whole seconds betray a file system that counts no finer
# (FAT by two); all others tick at least a hundred times a second.
_FINE_TICK_ns = 20_000_000
_COARSE_TICK_ns = 2_000_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Stamp:
    """What the file system says of a file's content; two stamps differ if the file was written between."""

    size_bytes: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        """The stamp within a status."""
        # The change time too: it alone cannot be set back after a write.
        return cls(
            size_bytes=status.st_size,
            mtime_ns=status.st_mtime_ns,
            ctime_ns=status.st_ctime_ns,
            inode=status.st_ino,
        )

    def is_settled(self, now_ns: int) -> bool:
        """Whether a write from now on must give another stamp."""
        newest_ns = max(self.mtime_ns, self.ctime_ns)
        tick_ns = _FINE_TICK_ns if newest_ns % 1_000_000_000 else _COARSE_TICK_ns
        return now_ns - newest_ns > tick_ns


@dataclass(frozen=True, slots=True)
class Memo:
    """The remembered digests in one folder."""

    folder: Path

    def recall(self, path: str) -> tuple[Stamp, Digest] | None:
        """What was remembered of a path, or None; a torn or foreign entry is none."""
        try:
            text = self._entry(path).read_text(encoding="ascii")
            *numbers, digest, check = text.split()
            size, mtime, ctime, inode = map(int, numbers)
            stamp = Stamp(size_bytes=size, mtime_ns=mtime, ctime_ns=ctime, inode=inode)
            return (stamp, Digest(digest)) if check == _check(path, stamp, digest) else None
        except (OSError, ValueError, Refused):
            return None

    def remember(self, path: str, stamp: Stamp, digest: Digest) -> None:
        """Keep the digest of a settled file; where the folder cannot be written, say so once."""
        numbers = (stamp.size_bytes, stamp.mtime_ns, stamp.ctime_ns, stamp.inode)
        text = " ".join(map(str, (*numbers, digest, _check(path, stamp, digest.hex))))
        try:
            _replace(self._entry(path), text)
        except OSError as error:
            _warn_once(self.folder, error.strerror or type(error).__name__)

    def _entry(self, path: str) -> Path:
        name = hashlib.sha256(os.fsencode(path)).hexdigest()
        return self.folder / name[:2] / name[2:]


def _check(path: str, stamp: Stamp, digest: str) -> str:
    # Not synced to disk (that would cost more than hashing a small file), so torn entries must show.
    return hashlib.sha256(os.fsencode(f"{path}\0{stamp}\0{digest}")).hexdigest()[:16]


def _replace(target: Path, text: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".")
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(text)
        os.replace(name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


@lru_cache(maxsize=16)
def _warn_once(folder: Path, reason: str) -> None:
    _log.warning("cannot remember digests in %s (%s): files are hashed again each time", folder, reason)
