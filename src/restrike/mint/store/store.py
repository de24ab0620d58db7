"""The local store of cells: a folder that any number of processes share.

The first cell of a key stays, a file appears whole or not at all, and nothing is handed out unverified.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import BinaryIO, Literal

from restrike.errors import NotFound, Refused, typed
from restrike.keys import Digest
from restrike.mint.cell.host import Host
from restrike.mint.cell.keyring import Keyring
from restrike.mint.cell.layout import HEAD_BYTES
from restrike.mint.cell.manifest import Manifest
from restrike.mint.cell.refusal import CellRefusal, CellRefused
from restrike.mint.cell.verify import (
    Opened,
    check_key,
    size_of,
    verify_header,
    verify_host,
    verify_manifest,
)
from restrike.mint.store.collecting import Collecting
from restrike.mint.store.entry import Checked, Collected, SetAside, StoredCell
from restrike.mint.store.opened import VerifiedCell
from restrike.mint.store.quarantine import Quarantine
from restrike.store.files import copy_file, sync_folder
from restrike.store.leases import LEASE_S, Leases
from restrike.store.owner import Owner
from restrike.store.schema import Database

Published = Literal["published", "already"]
DEFAULT_LIMIT_BYTES = 10 << 30
SUFFIX = ".cell"
_NAME = re.compile(r"[0-9a-f]{64}")


class CellStore:
    """One folder, made when the first cell is published; `ring` has the keys it signs with and trusts."""

    def __init__(self, root: Path, *, lease_s: float = LEASE_S) -> None:
        self.root = root
        self.ring = Keyring(root / "keys")
        self.partial = root / "partial"
        self._sealed = root / "sealed"
        self._quarantine = Quarantine(root / "quarantine")
        self._database = Database(root / "leases.sqlite")
        self._leases = Leases(self._database, lease_s=lease_s)

    def path(self, key: Digest) -> Path:
        """Where the cell of a key lies, if it does."""
        return self._sealed / f"{key.hex}{SUFFIX}"

    def has(self, key: Digest) -> bool:
        """Whether there is a cell of this key: verified when it came, and again when it is opened."""
        return self.path(key).is_file()

    def publish(self, sealed: Path) -> Published:
        """Verify a sealed cell and keep it under its key, unless there is one already: the first stays.

        Raises:
            CellRefused: it is not whole, not signed by a trusted key, or was not proved against eager.
            Shortfall: no space is left.
            Refused: the store cannot be written.
        """
        self._database.check_writable()
        partial = self.partial / f"{secrets.token_hex(8)}{SUFFIX}"
        copy_file(sealed, partial)
        try:
            # The copy is verified, not the original: nobody else writes to it.
            with partial.open("rb") as file:
                opened, manifest = self._verified(file)
            if manifest.facts.proof is None:
                raise CellRefused(CellRefusal.UNPROVED, "nothing says that it computes what eager computes")
            return self._place(partial, opened.header.key)
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)

    def _place(self, partial: Path, key: Digest) -> Published:
        target = self.path(key)
        if target.exists() and self._is_good(key):
            return "already"
        # No other writer, nor a collection, comes between the look and the rename.
        with self._database.write():
            if target.exists():
                return "already"
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(partial, target)
            except OSError as error:
                raise typed(error) from error
        sync_folder(target.parent)
        return "published"

    def _is_good(self, key: Digest) -> bool:
        """Whether the cell that is there can stay; a bad one is set aside, for it would block its key."""
        try:
            with self.path(key).open("rb") as file:
                check_key(self._verified(file)[0].header, key)
        except FileNotFoundError:
            return False
        except CellRefused as refused:
            self._quarantine.take(self.path(key), key.hex, refused.reason, refused.detail)
            return False
        return True

    def _verified(self, file: BinaryIO) -> tuple[Opened, Manifest]:
        opened = verify_header(file.read(HEAD_BYTES), size_of(file), self.ring)
        return opened, verify_manifest(file, opened)

    @contextmanager
    def open(self, key: Digest, host: Host) -> Iterator[VerifiedCell]:
        """The cell of a key, verified for a machine, and safe from collection until the block ends.

        Raises:
            NotFound: there is none.
            CellRefused: by its reason; the cell is then set aside.
        """
        with self._used(key):
            try:
                file = self.path(key).open("rb")
            except FileNotFoundError as error:
                raise NotFound(f"no cell of key {key.short} in '{self.root}'") from error
            with file:
                yield self._checked(file, key, host)

    def _checked(self, file: BinaryIO, key: Digest, host: Host) -> VerifiedCell:
        try:
            opened = verify_header(file.read(HEAD_BYTES), size_of(file), self.ring)
            check_key(opened.header, key)
            verify_host(opened.header, host)
            manifest = verify_manifest(file, opened)
        except CellRefused as refused:
            self.quarantine(key, refused.reason, refused.detail)
            raise
        with suppress(OSError):
            os.utime(self.path(key))
        return VerifiedCell(opened=opened, manifest=manifest, file=file)

    @contextmanager
    def _used(self, key: Digest) -> Iterator[None]:
        """Hold a cell; a store that cannot be written is never collected either."""
        owner = Owner.here()
        name = f"use {key.hex} {owner.token}"
        held = self._database.writable and self._leases.take(name, owner)
        with self._leases.kept(name, owner) if held else nullcontext():
            yield

    @contextmanager
    def minting(self, key: Digest, check: Callable[[], None] = lambda: None) -> Iterator[bool]:
        """Let one process mint a key: True to the one that shall, False to all others once the cell is there.

        Who waits takes over when the owner dies or lets go without a cell. `check` may raise to stop waiting.

        Raises:
            Refused: the store cannot be written, so nothing could be published.
        """
        if self.has(key):
            yield False
            return
        self._database.check_writable()
        name, owner = f"mint {key.hex}", Owner.here()
        if not self._leases.wait(name, owner, lambda: self.has(key), check):
            yield False
            return
        with self._leases.kept(name, owner):
            # The last owner may have published between the look and the lease.
            yield not self.has(key)

    def quarantine(self, key: Digest, reason: str, detail: str) -> SetAside | None:
        """Set a cell aside, so that it is not tried again; None if it is gone, or cannot be moved."""
        return self._quarantine.take(self.path(key), key.hex, reason, detail)

    def quarantined(self) -> tuple[SetAside, ...]:
        """The cells that were set aside, newest first."""
        return self._quarantine.taken()

    def cells(self) -> tuple[StoredCell, ...]:
        """Every file that is kept, last used first, with what a look at its header says."""
        found: list[StoredCell] = []
        for path in self._paths():
            with suppress(FileNotFoundError):  # collected, or set aside, since it was listed
                found.append(self._stored(path))
        return tuple(sorted(found, key=lambda cell: -cell.used_s))

    def _paths(self) -> list[Path]:
        """The files that are named as cells are; a pipe of that name would never end."""
        named = (path for path in self._sealed.glob(f"*{SUFFIX}") if _NAME.fullmatch(path.stem))
        return sorted(path for path in named if path.is_file())

    def _stored(self, path: Path) -> StoredCell:
        header = refusal = None
        status = path.stat()
        try:
            with path.open("rb") as file:
                header = verify_header(file.read(HEAD_BYTES), status.st_size, self.ring).header
            check_key(header, Digest(path.stem))
        except CellRefused as error:
            refusal = error.reason
        return StoredCell(
            key=Digest(path.stem),
            size_bytes=status.st_size,
            used_s=status.st_mtime,
            header=header,
            refusal=refusal,
        )

    def find(self, prefix: str) -> Digest:
        """The key that begins so; raises NotFound for none, Refused for several."""
        found = [path.stem for path in self._paths() if path.stem.startswith(prefix)]
        if not found:
            raise NotFound(f"no cell has a key that begins with '{prefix}'")
        if len(found) > 1:
            raise Refused(f"several keys begin with '{prefix}'; give more digits")
        return Digest(found[0])

    def look(self, key: Digest) -> tuple[Opened, Manifest]:
        """All that a cell says of itself, verified, whatever machine it is for; sets nothing aside.

        Raises:
            NotFound, CellRefused: as `open`.
        """
        try:
            with self.path(key).open("rb") as file:
                opened, manifest = self._verified(file)
        except FileNotFoundError as error:
            raise NotFound(f"no cell of key {key.short} in '{self.root}'") from error
        check_key(opened.header, key)
        return opened, manifest

    def verify(self) -> Checked:
        """Check every byte of every cell, whatever machine it is for; set aside what is refused."""
        cells, refused = 0, list[SetAside]()
        for path in self._paths():
            try:
                self.look(Digest(path.stem))
            except NotFound:  # another process took it away since it was listed
                continue
            except CellRefused as error:
                taken = self._quarantine.take(path, path.stem, error.reason, error.detail)
                refused += [taken] if taken else []
            cells += 1
        return Checked(cells=cells, refused=tuple(refused))

    def collect(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> Collected:
        """Remove leftovers and, over the limit, the cells not used for longest; never one in use."""
        return Collecting(self._database, self._leases, self._sealed).collect(
            limit_bytes, partial=self.partial, quarantine=self._quarantine
        )
