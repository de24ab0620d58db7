"""Where mints work and leave their reports: one folder each beside the cells, the old ones removed.

What a mint whose process was killed could not remove, the next one does; the papers of both stay.
"""

from __future__ import annotations

import secrets
import shutil
import time
from contextlib import suppress
from pathlib import Path

from restrike.errors import typed
from restrike.store.owner import Owner

KEPT_S = 7 * 24 * 3600.0
"""How long what a mint left can be looked at."""

_OWNER = "owner"
_KEPT = frozenset(["request.json", "events.jsonl", "report.json", "output.txt"])


def new_scratch(root: Path) -> Path:
    """A new folder under `root`, for this user alone; raises Refused or Shortfall when it cannot be made."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        _drop_old(root)
        _tidy_dead(root)
        folder = root / f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
        folder.mkdir(mode=0o700)
        (folder / _OWNER).write_text(str(Owner.here()))
    except OSError as error:
        raise typed(error) from error
    return folder


def tidy(scratch: Path) -> None:
    """Remove what a mint no longer needs, and leave its request, events, report and output."""
    for path in scratch.iterdir():
        if path.is_dir() and path.name.startswith("attempt-"):
            tidy(path)
        elif path.name not in _KEPT:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def _drop_old(root: Path) -> None:
    for path in root.iterdir():
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > KEPT_S:
                shutil.rmtree(path, ignore_errors=True)


def _tidy_dead(root: Path) -> None:
    """Tidy the folders of processes that are known to be gone."""
    for path in root.glob(f"*/{_OWNER}"):
        with suppress(OSError, ValueError):  # another mint may be at it, or it is not whole
            if Owner.parse(path.read_text()).is_dead():
                tidy(path.parent)
