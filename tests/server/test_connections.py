"""Connections that send no head, or one without end, are closed; those that ask are not."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn
from fastapi import FastAPI

from restrike.server import connections
from restrike.server.hosting import listening

_ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(connections, "HEAD_S", 0.3)
    app = FastAPI()

    @app.get("/")
    async def answer() -> str:
        return "here"

    running = uvicorn.Server(listening(app, port=0))
    thread = threading.Thread(target=running.run)
    thread.start()
    while not running.started:
        time.sleep(0.01)
    yield running.servers[0].sockets[0].getsockname()[1]
    running.should_exit = True
    thread.join()


@pytest.mark.parametrize("head", [b"", b"GET / HTTP/1.1\r\nHost: local"])
def test_a_head_that_does_not_come_to_its_end_is_not_waited_for(port: int, head: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as wire:
        wire.sendall(head)
        assert wire.recv(100) == b""


def test_bytes_one_by_one_put_nothing_off(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as wire:
        until = time.monotonic() + 5.0
        while _takes(wire, b"X"):
            assert time.monotonic() < until
            time.sleep(0.05)


def _takes(wire: socket.socket, part: bytes) -> bool:
    try:
        wire.sendall(part)
    except OSError:
        return False
    return True


def test_one_that_asks_stays_between_its_requests(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as wire:
        for _ in range(2):
            wire.sendall(_ASK)
            assert _answer(wire)
            time.sleep(0.6)
        wire.sendall(_ASK)
        assert _answer(wire)


def _answer(wire: socket.socket) -> bool:
    """Whether an answer came whole; it comes in parts."""
    found = b""
    while not found.endswith(b'"here"'):
        part = wire.recv(10_000)
        if not part:
            return False
        found += part
    return found.startswith(b"HTTP/1.1 200")
