"""Weights from a hub, by the hub's own client: a hub on loopback that breaks off in the middle of a file."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from restrike.keys import file_digest

COMMIT = "c" * 40
CONTENT = os.urandom(1 << 20)
DIGEST = hashlib.sha256(CONTENT).hexdigest()
NAME = "transformer/model.safetensors"


class Hub(BaseHTTPRequestHandler):
    """One repository with one file, of which the first answer ends half way."""

    protocol_version = "HTTP/1.1"
    ranges: list[str | None]
    broken_off: int

    def do_HEAD(self) -> None:
        self._file(body=False)

    def do_GET(self) -> None:
        if "/tree/" in self.path:
            stored = {"oid": DIGEST, "size": len(CONTENT), "pointerSize": 128}
            listed = [{"type": "file", "path": NAME, "size": len(CONTENT), "oid": COMMIT, "lfs": stored}]
            self._answer(json.dumps(listed).encode(), {})
        elif self.path.startswith("/api/"):
            told = {"id": "owner/name", "sha": COMMIT, "siblings": [{"rfilename": NAME}]}
            self._answer(json.dumps(told).encode(), {})
        else:
            self._file(body=True)

    def _file(self, *, body: bool) -> None:
        asked = self.headers.get("Range")
        start = int(asked.removeprefix("bytes=").partition("-")[0]) if asked else 0
        told = {"ETag": f'"{DIGEST}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        if not body:
            self._answer(b"", told, length=len(CONTENT))
            return
        hub = type(self)
        hub.ranges.append(asked)
        part = CONTENT[start:]
        if hub.broken_off:
            hub.broken_off -= 1
            self._answer(part[: len(part) // 2], told, length=len(part))
            self.close_connection = True
            return
        told |= {"Content-Range": f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}"} if asked else {}
        self._answer(part, told, status=206 if asked else 200)

    def _answer(
        self, content: bytes, told: dict[str, str], *, length: int | None = None, status: int = 200
    ) -> None:
        self.send_response(status)
        for name, value in told.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content) if length is None else length))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[tuple[str, type[Hub]]]:
    """Its address, and what it was asked for."""
    served = type("Served", (Hub,), {"ranges": [], "broken_off": 1})
    server = ThreadingHTTPServer(("127.0.0.1", 0), served)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", served
    server.shutdown()
    thread.join()
    server.server_close()


def fetched(url: str, cache: Path) -> subprocess.CompletedProcess[str]:
    """What a process of its own fetches, for the client reads its settings once."""
    code = "from restrike.cards.hub import snapshot; print(snapshot('owner/name', None, ('*',)))"
    environment = {k: v for k, v in os.environ.items() if k != "HF_HUB_OFFLINE"}
    environment |= {"HF_ENDPOINT": url, "HF_HOME": str(cache), "HF_HUB_DISABLE_XET": "1"}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, text=True, capture_output=True, check=False)


def test_what_broke_off_is_fetched_again_and_is_whole(hub: tuple[str, type[Hub]], tmp_path: Path) -> None:
    url, served = hub
    done = fetched(url, tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(served.ranges) == 2
    file = Path(done.stdout.strip()) / NAME
    assert hashlib.sha256(file.read_bytes()).hexdigest() == DIGEST
    assert file_digest(file, memo=tmp_path / "memo").hex == DIGEST


def test_what_breaks_off_again_and_again_leaves_no_file_under_its_name(
    hub: tuple[str, type[Hub]], tmp_path: Path
) -> None:
    url, served = hub
    served.broken_off = 1000
    done = fetched(url, tmp_path)
    assert "restrike.errors.Shortfall: the hub failed on 'owner/name': peer closed" in done.stderr
    assert not list(tmp_path.rglob(Path(NAME).name))
