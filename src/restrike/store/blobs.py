"""Blobs: files named by the SHA-256 of their bytes. They appear whole or not at all and are never changed.

A blob is digested again whenever it is read; one that does not hold what its name says is set aside and
never handed out.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from restrike.errors import Crashed, Refused, Shortfall, typed
from restrike.keys import Digest
from restrike.store.files import copy_file, sync_folder, write_synced

_READ_BYTES = 8 << 20
_STALE_AFTER_S = 3600


class Damaged(Crashed):
    """A stored thing is missing or does not hold what its digest says."""


class Blobs:
    """The folder of blobs of one store."""

    def __init__(self, root: Path) -> None:
        self._blobs, self._partial, self._quarantine = (
            root / "blobs",
            root / "partial",
            root / "quarantine",
        )

    def path(self, digest: Digest) -> Path:
        """Where a blob lies, if it does."""
        return self._blobs / digest.hex[:2] / digest.hex

    def put(self, digest: Digest, data: bytes | memoryview) -> None:
        """Seal bytes under their digest; nothing is written when the blob is there already.

        Raises:
            Shortfall: no space is left.
            Refused: the store cannot be written.
        """
        target = self.path(digest)
        if target.exists():
            with suppress(OSError):
                os.utime(target)  # young again, so that no collection takes it before its entry is written
            return
        partial = self._partial / f"{digest.hex}-{secrets.token_hex(4)}"
        try:
            self._partial.mkdir(parents=True, exist_ok=True)
            target.parent.mkdir(parents=True, exist_ok=True)
            write_synced(partial, data)
            os.replace(partial, target)
            sync_folder(target.parent)
        except OSError as error:
            failure = typed(error)
            # Whatever else a disk may answer: the result is there and only its keeping failed.
            raise failure if isinstance(failure, Shortfall) else Refused(failure.message) from error
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)

    def read(self, digest: Digest) -> bytearray:
        """The bytes of a blob; one that is not what its name says is set aside, and raises Damaged."""
        path = self.path(digest)
        hasher = hashlib.sha256()
        try:
            with path.open("rb") as file:
                data = bytearray(os.fstat(file.fileno()).st_size)
                length = file.readinto(data)
        except OSError as error:
            raise Damaged(f"blob {digest.short} is missing") from error
        hasher.update(memoryview(data)[:length])
        if length != len(data) or hasher.hexdigest() != digest.hex:
            self.quarantine(digest)
            raise Damaged(f"blob {digest.short} does not hold what its digest says; it was set aside")
        return data

    def is_whole(self, digest: Digest) -> bool:
        """Whether the blob is there and holds what its name says; reads it in pieces, sets nothing aside."""
        hasher = hashlib.sha256()
        try:
            with self.path(digest).open("rb") as file:
                while piece := file.read(_READ_BYTES):
                    hasher.update(piece)
        except OSError:
            return False
        return hasher.hexdigest() == digest.hex

    def quarantine(self, digest: Digest) -> None:
        """Set a blob aside, for people to look at."""
        with suppress(OSError):
            self._quarantine.mkdir(parents=True, exist_ok=True)
            os.replace(self.path(digest), self._quarantine / f"{digest.hex}-{int(time.time())}")

    def remove(self, digest: Digest) -> int:
        """Delete a blob; returns the bytes that became free."""
        path = self.path(digest)
        try:
            size_bytes = path.stat().st_size
            path.unlink()
        except OSError:
            return 0
        return size_bytes

    def present(self) -> Iterator[tuple[Digest, int, float]]:
        """All blobs, with their sizes in bytes and the seconds since they were written or wanted last."""
        now = time.time()
        for path in self._blobs.glob("??/*"):
            with suppress(OSError):
                status = path.stat()
                yield Digest(path.name), status.st_size, now - status.st_mtime

    def sweep_partial(self) -> int:
        """Delete what writers that died left behind; returns how many files."""
        removed = 0
        for path in self._partial.glob("*"):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > _STALE_AFTER_S:
                    path.unlink()
                    removed += 1
        return removed

    def publish(self, digest: Digest, target: Path) -> None:
        """Give a run its own file with a blob's bytes, by reflink where the file system can, else by copy.

        Never by a hard link: a write through it would edit the store.
        """
        if not self.is_whole(digest):
            self.quarantine(digest)
            raise Damaged(f"blob {digest.short} is missing or damaged")
        copy_file(self.path(digest), target)
