"""Keeps the picture that comes with a request among the workspace's assets, under the digest of its bytes."""

from __future__ import annotations

import hashlib
import io
from contextlib import suppress

from starlette.datastructures import UploadFile

from restrike.errors import Conflict
from restrike.server.api.asking import heavy
from restrike.server.assets import Assets
from restrike.server.openai.failures import BadField
from restrike.server.service import Service

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
    assets = Assets(service.workspace(workspace))
    with suppress(Conflict), assets.written(name, replace=False) as file:
        file.write(data)
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
