"""Serves a file by ranges: as what its suffix says, and never as something that a browser would run."""

from __future__ import annotations

import re
from pathlib import Path

from fastapi import Request
from starlette.responses import FileResponse

from restrike.server.problems import Rejected
from restrike.server.views import MEDIA, media_type

_RANGES = re.compile(r"bytes=\s*(\d*-\d*)(\s*,\s*\d*-\d*)*\s*")


def served(path: Path, request: Request) -> FileResponse:
    """The file; media is shown, all else is saved. Raises Rejected for ranges that it does not have."""
    _check_ranges(request.headers.get("range"), path.stat().st_size)
    kind = media_type(path.name)
    shown = "inline" if path.suffix.lower() in MEDIA else "attachment"
    headers = {"content-security-policy": "sandbox; default-src 'none'", "cache-control": "private, no-cache"}
    return FileResponse(
        path, media_type=kind, filename=path.name, content_disposition_type=shown, headers=headers
    )


def _check_ranges(header: str | None, size: int) -> None:
    if header is None or not header.startswith("bytes"):
        return
    if not _RANGES.fullmatch(header):
        raise Rejected(416, "a range is bytes=FIRST-LAST, bytes=FIRST- or bytes=-COUNT")
    for part in header.partition("=")[2].split(","):
        first, _, last = part.strip().partition("-")
        if len(first) > 18 or len(last) > 18:
            raise Rejected(416, f"the file has {size} bytes")
        if first and (int(first) >= size or (last and int(last) < int(first))):
            raise Rejected(416, f"the file has {size} bytes")
        if not first and not int(last or 0):
            raise Rejected(416, "a range is bytes=FIRST-LAST, bytes=FIRST- or bytes=-COUNT")
