"""Names of files below a folder, as requests give them: nothing outside is ever named, opened or told of."""

from __future__ import annotations

import re
from pathlib import Path

from restrike.errors import NotFound, Refused

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_ .()+,=@-]{0,119}")
_MAX_DEPTH = 8


def named(name: str, what: str) -> str:
    """A name that a file may be made under; raises Refused, the same whatever exists."""
    parts = name.split("/")
    if len(parts) > _MAX_DEPTH or not all(_PART.fullmatch(part) and not part.endswith(".") for part in parts):
        raise Refused(
            f"'{name[:80]}' is no name for {what}: letters, digits, '_', '-', '.', and '/' between folders"
        )
    return name


def inside(root: Path, name: str, what: str) -> Path:
    """A file below a folder; raises NotFound, with one answer for what is absent and what is barred."""
    absent = NotFound(f"no {what} '{name[:200]}'")
    if not name or name.startswith("/") or "\0" in name or "\\" in name or ".." in name.split("/"):
        raise absent
    path = root / name
    try:
        if path.resolve(strict=True).is_relative_to(root.resolve(strict=True)) and path.is_file():
            return path
    except (OSError, ValueError, RuntimeError):
        pass
    raise absent
