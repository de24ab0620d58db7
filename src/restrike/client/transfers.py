"""Files from and to a server, in pieces; a file is whole, with the bytes that were told of, or not there."""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from restrike.client.results import JobFile
from restrike.client.wire import Answer, Wire
from restrike.errors import Crashed, NotFound, Refused, typed

_CHUNK_BYTES = 1 << 18


def download(wire: Wire, file: JobFile, folder: Path) -> Path:
    """A file of a job in a folder, under its own name; returns where it is.

    A server is not trusted with where that is: a name that leads out of the folder is refused.

    Raises:
        Crashed: the bytes are not those that were told of.
        Shortfall, Refused: the folder has no space, or cannot be written.
    """
    target = folder / _inside(file.file)
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    with wire.open("GET", file.url) as answer:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            found = _write(answer, partial)
            if found != file.sha256:
                raise Crashed(
                    f"'{file.file}' came with other bytes than the server told of; download it again"
                )
            partial.replace(target)
        except OSError as error:
            raise typed(error) from error
        finally:
            partial.unlink(missing_ok=True)
    return target


def upload(wire: Wire, file: Path, workspace: str) -> str:
    """Keep a file among a workspace's assets; returns how a workflow names it."""
    try:
        with file.open("rb") as read:
            found = hashlib.file_digest(read, "sha256").hexdigest()
            name = f"uploads/{found[:16]}{file.suffix.lower()}"
            read.seek(0)
            headers = {
                "Content-Type": "application/octet-stream",
                "Content-Length": str(file.stat().st_size),
            }
            path, query = f"/api/assets/{quote(name)}", {"workspace": workspace, "replace": "true"}
            with wire.open("PUT", path, query=query, body=read, headers=headers) as answer:
                answer.read()
    except FileNotFoundError as error:
        raise NotFound(f"no file '{file}'") from error
    except OSError as error:
        raise typed(error) from error
    return f"$asset.{name}"


def _inside(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\\" in name:
        raise Refused(f"the server names a file '{name}', which leads out of the folder")
    return path


def _write(answer: Answer, partial: Path) -> str:
    """Write what comes; returns its SHA-256."""
    hashed = hashlib.sha256()
    with partial.open("xb") as written:
        for chunk in answer.chunks():
            hashed.update(chunk)
            written.write(chunk)
        written.flush()
        os.fsync(written.fileno())
    return hashed.hexdigest()
