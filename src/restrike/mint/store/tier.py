"""A second tier of cells behind any fsspec URL: a bucket, a share, a folder.

A cell lies there in pieces named by their digests, and a listing that is written last: an upload or download
that was interrupted moves only the rest, and nobody sees half a cell. Nothing that is read here is trusted.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from restrike.errors import NotFound, Refused, RestrikeError, typed
from restrike.keys import Digest, bytes_digest
from restrike.mint.cell import coding
from restrike.mint.cell.layout import HEAD_BYTES
from restrike.mint.cell.refusal import CellRefusal, CellRefused
from restrike.mint.store.place import check_scheme, no_such_scheme, unusable
from restrike.store.blobs import Blobs, Damaged
from restrike.store.files import write_file

PIECE_BYTES = 4 << 20
# What is read of one file, at most: the other side is not trusted to know how long a listing or a piece is.
_MOST_BYTES = 64 << 20
_NAME = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The start of a cell's file, enough for its header, the size of the whole, and its pieces in order."""

    head: bytes
    size_bytes: int
    pieces: tuple[Digest, ...]


class Tier:
    """The cells under one URL, which `setting` holds if it was not given by hand.

    Raises, from each method:
        Refused: no permission, or a folder that cannot be one.
        Shortfall: no space is left.
        Crashed: the other side fails.
    """

    def __init__(self, url: str, *, setting: str = "") -> None:
        place = f"{setting}={url}" if setting else f"cells at '{url}'"
        self._place_name, self._setting = place, setting
        check_scheme(url, place)
        try:
            from fsspec import available_protocols
            from fsspec.core import url_to_fs
        except ImportError as error:
            raise Refused(f"{place}: it needs fsspec: pip install 'restrike[remote]'") from error
        try:
            files, root = url_to_fs(url)
        except ImportError as error:
            raise Refused(f"{place}: {error}") from error
        except ValueError as error:
            raise no_such_scheme(url, place, available_protocols()) from error
        self._files: Any = files
        self._url, self._root = url, root.rstrip("/")
        self._is_local = "file" in ((files.protocol,) if isinstance(files.protocol, str) else files.protocol)

    def keys(self) -> tuple[Digest, ...]:
        """The keys of all cells that are listed."""
        with self._talking():
            self._files.invalidate_cache()
            try:
                names = self._files.ls(f"{self._root}/cells", detail=False)
            except FileNotFoundError:
                return ()
        stems = sorted(name.rpartition("/")[2] for name in names)
        return tuple(Digest(stem) for stem in stems if _NAME.fullmatch(stem))

    def has(self, key: Digest) -> bool:
        """Whether a cell is listed."""
        with self._talking():
            self._files.invalidate_cache()
            return bool(self._files.exists(self._cell(key)))

    def listing(self, key: Digest) -> Listing:
        """What the tier says of a cell; raises NotFound, or CellRefused for one that cannot be read."""
        with self._talking():
            try:
                data = self._files.cat_file(self._cell(key), end=_MOST_BYTES)
            except FileNotFoundError as error:
                raise NotFound(f"no cell of key {key.short} at '{self._url}'") from error
        return coding.read(Listing, data)

    def fetch(self, listing: Listing, fetched: Blobs, to: Path) -> None:
        """Bring a cell's pieces here, those that are not yet, and put them together in `to`.

        Raises:
            CellRefused: a piece is missing or is not what it is named by.
            Shortfall: no space is left.
        """
        for digest in listing.pieces:
            if not fetched.is_whole(digest):
                fetched.put(digest, self._piece(digest))
        try:
            write_file(to, b"".join(fetched.read(digest) for digest in listing.pieces))
        except Damaged as error:
            raise CellRefused(CellRefusal.FLIPPED_BYTES, str(error)) from error
        for digest in listing.pieces:
            fetched.remove(digest)

    def offer(self, key: Digest, cell: Path) -> bool:
        """Send those pieces of a cell that are not there, and list it; False if another was listed first."""
        try:
            data = cell.read_bytes()
        except OSError as error:
            raise typed(error) from error
        pieces = [data[start : start + PIECE_BYTES] for start in range(0, len(data), PIECE_BYTES)]
        digests = tuple(map(bytes_digest, pieces))
        with self._talking():
            self._files.invalidate_cache()
            for digest, piece in zip(digests, pieces, strict=True):
                if not self._is_there(digest, len(piece)):
                    self._put(self._place(digest), piece)
            listing = Listing(head=data[:HEAD_BYTES], size_bytes=len(data), pieces=digests)
            return self._create(self._cell(key), coding.written(listing))

    def _cell(self, key: Digest) -> str:
        return f"{self._root}/cells/{key.hex}"

    def _place(self, digest: Digest) -> str:
        return f"{self._root}/pieces/{digest.hex[:2]}/{digest.hex}"

    def _is_there(self, digest: Digest, size_bytes: int) -> bool:
        """By the size as well: what a writer that died left behind on a share is shorter."""
        try:
            return bool(self._files.info(self._place(digest))["size"] == size_bytes)
        except FileNotFoundError:
            return False

    def _piece(self, digest: Digest) -> bytes:
        with self._talking():
            try:
                data = self._files.cat_file(self._place(digest), end=_MOST_BYTES)
            except FileNotFoundError as error:
                raise CellRefused(CellRefusal.TRUNCATED, f"piece {digest.short} is not there") from error
        if bytes_digest(data) != digest:
            raise CellRefused(CellRefusal.FLIPPED_BYTES, f"piece {digest.short} is not what it is named by")
        return data

    def _put(self, path: str, data: bytes) -> None:
        if self._is_local:
            write_file(Path(path), data)
        else:
            self._files.pipe_file(path, data)

    def _create(self, path: str, data: bytes) -> bool:
        """Write a file that must not exist, whole; False if it does."""
        try:
            if self._is_local:
                _create_locally(Path(path), data)
            else:
                self._files.pipe_file(path, data, mode="create")
        except FileExistsError:
            return False
        return True

    @contextmanager
    def _talking(self) -> Iterator[None]:
        """Give the failures of the other side, whatever library they come from, their place in the tree."""
        try:
            yield
        except (NotFound, CellRefused):
            raise
        except Exception as error:
            # What failed below may have its place in the tree already, and hold what failed first.
            cause = error.__cause__ if isinstance(error, RestrikeError) else error
            if self._is_local and isinstance(cause, OSError):
                raise unusable(cause, self._place_name, self._remedy) from error
            failure = typed(error)
            raise type(failure)(f"{self._place_name}: {failure}") from error

    @property
    def _remedy(self) -> str:
        verb = f"set {self._setting} to" if self._setting else "name"
        return f"{verb} a folder that can be written, or a bucket"


def _create_locally(path: Path, data: bytes) -> None:
    """A link fails where a rename would replace: the first writer wins."""
    partial = path.with_name(f".{secrets.token_hex(8)}.part")
    write_file(partial, data)
    try:
        os.link(partial, path)
    finally:
        with suppress(OSError):
            partial.unlink()
