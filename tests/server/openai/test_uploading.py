"""A picture that comes with a request is kept once among the assets, under what its bytes are."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio
import httpx
import pytest
from PIL import Image
from starlette.datastructures import UploadFile

from restrike.server.app import create_app
from restrike.server.database.connect import Database
from restrike.server.openai.failures import BadField
from restrike.server.openai.uploading import kept_picture
from restrike.server.place import DEFAULT_WORKSPACE, Place
from restrike.server.security.access import Access
from restrike.server.security.tokens import Scope
from restrike.server.service import Service


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A service without workers."""
    place = Place(folder=tmp_path / "data")
    place.make()
    database = Database(place.database_url)
    database.migrate()
    yield Service(place=place, database=database)
    database.close()


def kept(service: Service, data: bytes) -> str:
    upload = UploadFile(io.BytesIO(data), filename="../../evil.sh")
    return anyio.run(partial(kept_picture, service, DEFAULT_WORKSPACE, upload, "image"))


def picture(form: str) -> bytes:
    written = io.BytesIO()
    Image.new("RGB", (4, 4), (200, 30, 40)).save(written, format=form)
    return written.getvalue()


@pytest.mark.parametrize(("form", "suffix"), [("png", ".png"), ("jpeg", ".jpg"), ("webp", ".webp")])
def test_a_picture_is_kept_once_by_its_bytes(service: Service, form: str, suffix: str) -> None:
    name = kept(service, picture(form))
    assert name.startswith("$asset.openai/")
    assert name.endswith(suffix)
    assert kept(service, picture(form)) == name
    (file,) = (service.workspace(DEFAULT_WORKSPACE) / "assets" / "openai").iterdir()
    assert file.read_bytes() == picture(form)


@pytest.mark.parametrize("data", [b"", b"#!/bin/sh\n", picture("png")[:40], picture("gif")])
def test_what_is_no_picture_is_refused_and_not_kept(service: Service, data: bytes) -> None:
    with pytest.raises(BadField, match="image: this is no PNG, JPEG or WebP picture"):
        kept(service, data)
    assert not list(service.workspace(DEFAULT_WORKSPACE).rglob("*.*"))


async def statuses(service: Service, token: str | None) -> list[int]:
    app = create_app(service, Access(host="0.0.0.0", hosts=("gpu.example",)))
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://gpu.example", headers=headers
    ) as client:
        return [
            (await client.get("/v1/models")).status_code,
            (await client.post("/v1/images/generations", json={})).status_code,
            (await client.delete("/v1/videos/job-none")).status_code,
            (await client.post("/mcp", json={})).status_code,
        ]


def test_others_need_a_token_of_the_right_scope_on_every_route(service: Service) -> None:
    reads = service.tokens.create("reads", frozenset({Scope.READ}))
    runs = service.tokens.create("runs", frozenset({Scope.READ, Scope.RUN}))
    assert anyio.run(statuses, service, None) == [401] * 4
    assert anyio.run(statuses, service, "none") == [401] * 4
    assert anyio.run(statuses, service, reads) == [200, 403, 403, 403]
    # Let in: an empty request is at fault, an unknown video is none, and tools are there once a server runs.
    assert anyio.run(statuses, service, runs) == [200, 400, 404, 404]
