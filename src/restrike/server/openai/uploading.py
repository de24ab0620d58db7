"""Keeps the picture that comes with a request among the workspace's assets, under the digest of its bytes."""

from __future__ import annotations

import hashlib
import io

from starlette.datastructures import UploadFile

from restrike.server.api.asking import heavy
from restrike.server.openai.failures import BadField
from restrike.server.service import Service
from restrike.store.files import write_file
from restrike.workflow.workspace_files import ASSETS

FOLDER = "openai"
_SUFFIXES = {"PNG": "png", "JPEG": "jpg", "WEBP": "webp"}


async def kept_picture(service: Service, workspace: str, upload: UploadFile, field: str) -> str:
    """Where a workflow finds the picture: `$asset.openai/DIGEST.png`; equal pictures are kept once.

    Raises:
        BadField: it is no PNG, JPEG or WebP.
        NotFound, Shortfall: there is no such workspace, or no space in it.
    """
    data = await upload.read()
    return await heavy(service, lambda: _kept(service, workspace, data, field))


def _kept(service: Service, workspace: str, data: bytes, field: str) -> str:
    name = f"{FOLDER}/{hashlib.sha256(data).hexdigest()[:32]}.{_suffix(data, field)}"
    target = service.workspace(workspace) / ASSETS / name
    if not target.exists():
        write_file(target, data)
    return f"$asset.{name}"


def _suffix(data: bytes, field: str) -> str:
    """What kind of picture it is, by its content."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=tuple(_SUFFIXES)) as picture:
            picture.verify()
            return _SUFFIXES[str(picture.format)]
    except Exception as error:  # a torn or hostile file fails in any way
        raise BadField(field, "this is no PNG, JPEG or WebP picture") from error
