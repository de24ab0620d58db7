"""Says in the user's words, and before any work is lost, that a place for cells cannot be used.

Reads no cell, and leaves nothing in a place but the folder itself.
"""

from __future__ import annotations

import difflib
import errno
import re
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from restrike.errors import Refused, RestrikeError, Shortfall, typed
from restrike.store.files import write_synced

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?!//|:)")
_OF_THE_PLACE = frozenset(
    [
        errno.EACCES,
        errno.EEXIST,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EPERM,
        errno.EROFS,
    ]
)
_WITHOUT_SLASHES = ("file", "local")


def require_writable(folder: Path, place: str, remedy: str) -> None:
    """Make the folder, and raise as `unusable` if a file cannot be written into it."""
    probe = folder / f".{secrets.token_hex(8)}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_synced(probe, b"\0")
    except OSError as error:
        raise unusable(error, place, remedy) from error
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)


def unusable(error: OSError, place: str, remedy: str) -> RestrikeError:
    """Shortfall where a disk is full, Refused where the place cannot be one; else as `typed` has it."""
    failure = typed(error)
    if isinstance(failure, Shortfall):
        return Shortfall(f"no space is left for {place}; make room, or {remedy}")
    if error.errno in _OF_THE_PLACE:
        return Refused(f"{place} cannot be used ({error.strerror}); {remedy}")
    return type(failure)(f"{place}: {failure}")


def check_scheme(url: str, place: str) -> None:
    """Raise Refused for `s3:/bucket`, which is a folder of that name to libraries and no bucket."""
    match = _SCHEME.match(url)
    if match is not None and match[1] not in _WITHOUT_SLASHES:
        raise Refused(
            f"{place}: two slashes follow the scheme of a URL, '{match[1]}://'; a folder of that name is "
            f"'./{url}'"
        )


def no_such_scheme(url: str, place: str, known: Iterable[str]) -> Refused:
    """The refusal of a URL whose scheme nothing here speaks, with the nearest that something does."""
    scheme = url.partition("://")[0]
    near = difflib.get_close_matches(scheme, known, n=1)
    guess = f"; did you mean '{near[0]}://'?" if near else "; a folder, or a URL such as 's3://bucket/cells'"
    return Refused(f"{place}: nothing speaks '{scheme}://'{guess}")
