"""Digests of files and folders by content; where they lie never changes the digest.

Nothing here reads what a file means, and no file is trusted by its name, with one exception that is checked
for later edits: the blobs that the Hugging Face cache names by their SHA-256.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from platformdirs import user_cache_path

from restrike.errors import NotFound, Refused, typed
from restrike.keys.key import digest
from restrike.keys.memo import Memo, Stamp
from restrike.keys.unkeyable import Unkeyable
from restrike.keys.values import Digest, Ref

# <hub cache>/models--owner--name/blobs/<sha256>; smaller files are named by 40 digits, a git hash.
_HUB_REPOSITORY = re.compile(r"(models|datasets|spaces)--.+")
_HUB_BLOB = re.compile(r"[0-9a-f]{64}")


def file_digest(path: str | os.PathLike[str], *, memo: Path | None = None) -> Digest:
    """The SHA-256 of a file's bytes, hashed once as long as the file is unchanged.

    Args:
        path: the file, or a symbolic link to it.
        memo: the folder that remembers digests; by default within the user's cache folder.

    Raises:
        NotFound: there is no such file.
        Refused: it cannot be read, or is no regular file.
        Unkeyable: it was written while it was read.
    """
    remembered = Memo(memo or user_cache_path("restrike", appauthor=False) / "digests")
    resolved = os.path.realpath(path)
    try:
        stamp = _regular(resolved)
        known = remembered.recall(resolved)
        if known is not None and known[0] == stamp:
            return known[1]
        # The name is the identity of a blob until it is seen to change; then its bytes are.
        trusted = known is None and _hub_blob(resolved)
        found = Digest(os.path.basename(resolved)) if trusted else _hashed(resolved, stamp)
    except FileNotFoundError as error:
        raise NotFound(f"no file at '{path}'") from error
    except OSError as error:
        raise typed(error) from error
    if stamp.is_settled(time.time_ns()):
        remembered.remember(resolved, stamp, found)
    return found


def folder_digest(
    path: str | os.PathLike[str], *, patterns: Sequence[str] = ("**",), memo: Path | None = None
) -> Digest:
    """The digest of the relative names and bytes of a folder's files; links count as what they lead to.

    Args:
        path: the folder; moving or renaming it changes nothing.
        patterns: which files count, as globs of their relative names; `*` stays within one name,
            `**` spans any number of folders.
        memo: as for `file_digest`.

    Raises:
        NotFound: there is no such folder, or no file in it matches.
        Refused, Unkeyable: as for `file_digest`.
    """
    root = Path(path)
    if not root.is_dir():
        raise NotFound(f"no folder at '{root}'")
    try:
        names = [name for name in _names(root, "", ()) if _counts(name, patterns)]
    except OSError as error:
        raise typed(error) from error
    if not names:
        raise NotFound(f"no file in '{root}' matches {', '.join(patterns)}")
    files = {name: Ref(file_digest(root / name, memo=memo), of="file") for name in names}
    return digest("folder", "1", files)


def _regular(path: str) -> Stamp:
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise Refused(f"'{path}' is not a regular file")
    return Stamp.of(status)


def _hashed(path: str, stamp: Stamp) -> Digest:
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    # Looked at by name again: it may have been replaced as well as written to.
    if _regular(path) != stamp:
        raise Unkeyable(f"'{path}' was written while it was read; try again when it is complete")
    return Digest(found)


def _hub_blob(path: str) -> bool:
    *_, repository, folder, name = ("", "", *Path(path).parts)
    return folder == "blobs" and bool(_HUB_REPOSITORY.fullmatch(repository) and _HUB_BLOB.fullmatch(name))


def _names(folder: Path, prefix: str, above: tuple[str, ...]) -> Iterator[str]:
    """The relative names of all files under a folder, through links; one that leads back up is refused."""
    real = os.path.realpath(folder)
    if real in above:
        raise Refused(f"'{folder}' leads back to a folder that contains it")
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _names(Path(entry.path), f"{prefix}{entry.name}/", (*above, real))
            else:
                yield prefix + entry.name


def _counts(name: str, patterns: Sequence[str]) -> bool:
    return any(_matches(name.split("/"), pattern.split("/")) for pattern in patterns)


def _matches(names: list[str], globs: list[str]) -> bool:
    if not globs:
        return not names
    if globs[0] == "**":
        return _matches(names, globs[1:]) or (bool(names) and _matches(names[1:], globs))
    return bool(names) and fnmatchcase(names[0], globs[0]) and _matches(names[1:], globs[1:])
