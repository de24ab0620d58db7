"""The workspace's own identity: what keeps results of one workspace from another.

It is a random name in a file inside the workspace, so that a workspace that is moved keeps its results.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

from restrike.errors import Refused, typed
from restrike.store.files import sync_folder, write_synced

FILE = Path(".restrike") / "workspace.json"
SHARED = "shared"


def scope_of(workspace: Path, scope: str, *, create: bool) -> str:
    """The scope that enters keys: `shared`, or the name of the workspace.

    A workspace without a name gets one when `create` says so; else it has the name that nothing was ever
    kept under.
    """
    if scope == SHARED:
        return SHARED
    path = workspace / FILE
    if path.exists():
        return _read(path)
    if not create:
        return "workspace new"
    _name(path, secrets.token_hex(16))
    return _read(path)


def _name(path: Path, name: str) -> None:
    """Write the name unless another process was first: two first runs at once have one name."""
    partial = path.with_name(f".{name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_synced(partial, json.dumps({"id": name}).encode())
        with suppress(FileExistsError):
            os.link(partial, path)
        sync_folder(path.parent)
    except OSError as error:
        raise typed(error) from error
    finally:
        partial.unlink(missing_ok=True)


def _read(path: Path) -> str:
    try:
        name = json.loads(path.read_text(encoding="utf-8"))["id"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Refused(f"'{path}' cannot be read ({error}); remove it to begin anew") from error
    if not isinstance(name, str) or not re.fullmatch(r"[0-9a-f]{32}", name):
        raise Refused(f"'{path}' holds no workspace name; remove it to begin anew")
    return f"workspace {name}"
