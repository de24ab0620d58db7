"""How a run's files are called: by step, member and item. Names decide no key."""

from __future__ import annotations

import hashlib
import re
from pathlib import PurePosixPath

from restrike.workflow.graph import Action

_MAX_BYTES = 220
_PART = re.compile(r"(?P<name>[^/\[\]]+)(?:\[(?P<member>[^\[\]]*)\])?")


def file_name(action: Action, suffix: str, item: int | None) -> str:
    """The name of a file relative to the run's folder: `folder/name-member-item.suffix`.

    A step of a nested workflow has its parent's name and member before its own.
    """
    stem = file_stem(action)
    return f"{stem}.{suffix}" if item is None else f"{stem}-{item}.{suffix}"


def file_stem(action: Action) -> str:
    """The same without item and suffix."""
    *above, own = [match.groups() for match in _PART.finditer(action.id)]
    parts = [*above, (action.result.name or own[0], own[1])]
    words = [_safe(word) for part in parts for word in part if word]
    return str(PurePosixPath(action.result.folder or ".") / _fitting("-".join(words)))


def _fitting(name: str) -> str:
    """The name within what file systems allow, with room for item and suffix."""
    whole = name.encode()
    if len(whole) <= _MAX_BYTES:
        return name
    return f"{whole[: _MAX_BYTES - 7].decode(errors='ignore')}-{hashlib.sha256(whole).hexdigest()[:6]}"


def _safe(text: str) -> str:
    wanted = text.replace(" ", "-")
    kept = "".join(c if c.isalnum() or c in "-_." else "-" for c in wanted)[:60].strip(".-")
    # Two names that are cleaned to one text are still two files; those that differ in blanks are refused.
    return kept if kept == wanted else f"{kept}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"
