"""Events over connections that break: none is lost and none comes twice. The server here is a bad one."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from restrike.client.following import Following
from restrike.client.stream import messages
from restrike.client.wire import Broken, Wire
from restrike.errors import Crashed, NotFound

EVENTS = [{"id": number, "job": "j", "kind": "progress", "time": 0.0, "data": {}} for number in range(1, 8)]
EVENTS[-1] |= {"kind": "state", "data": {"state": "succeeded"}}


@contextmanager
def answering(*answers: Any) -> Iterator[tuple[str, list[str]]]:
    """A server that answers each request as the next of these does, and keeps what it was asked."""
    asked: list[str] = []
    waiting = list(answers)

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            lines = list(iter(lambda: self.rfile.readline().decode().strip(), ""))
            asked.append("\n".join(lines))
            self.wfile.write((waiting.pop(0) if len(waiting) > 1 else waiting[0])(lines))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
        server.shutdown()


def stream(lines: list[str], *, count: int, cut: int = 0) -> bytes:
    """So many events after the one that was seen last, and without the last `cut` bytes of that."""
    seen = [line for line in lines if line.lower().startswith("last-event-id:")]
    after = int(seen[0].split(":")[1]) if seen else 0
    frames = "".join(f"id: {event['id']}\ndata: {json.dumps(event)}\n\n" for event in EVENTS[after:][:count])
    body = f": hello\n\n{frames}".encode()
    return _head(200, "text/event-stream") + body[: len(body) - cut]


def _head(status: int, kind: str) -> bytes:
    return f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n".encode()


def job(_: list[str]) -> bytes:
    """A job that runs."""
    return _head(200, "application/json") + b'{"state": "running"}'


def numbers(url: str, **options: Any) -> list[int]:
    return [event.sequence for event in Following(Wire(url), "j", None, **options)]


def test_a_stream_that_breaks_goes_on_after_the_last_event() -> None:
    with answering(
        lambda lines: stream(lines, count=3),
        lambda lines: stream(lines, count=2, cut=7),  # breaks within an event, which is told again
        lambda lines: b"",
        lambda lines: stream(lines, count=9),
    ) as (url, asked):
        assert numbers(url) == [1, 2, 3, 4, 5, 6, 7]
    assert ["Last-Event-ID: 4" in text for text in asked] == [False, False, True, True]


def test_events_that_come_twice_are_told_once() -> None:
    with answering(lambda lines: stream([], count=3), lambda lines: stream([], count=9)) as (url, _):
        assert numbers(url) == [1, 2, 3, 4, 5, 6, 7]


def test_all_jobs_are_followed_from_where_the_first_stream_began() -> None:
    head = _head(200, "text/event-stream")
    with answering(
        lambda lines: head + b"retry: 1000\nid: 4\n: hello\n\n",  # breaks before any event
        lambda lines: stream(lines, count=9),
    ) as (url, asked):
        following = Following(Wire(url), None, None)
        found = []
        for event in following:
            found.append(event.sequence)
            if event.sequence == 7:
                break
    assert found == [5, 6, 7]
    assert ["Last-Event-ID: 4" in text for text in asked] == [False, True]


def test_an_answer_that_is_a_failure_is_raised() -> None:
    problem = json.dumps({"class": "not-found", "detail": "no job 'j'"}).encode()
    with (
        answering(lambda lines: _head(404, "application/problem+json") + problem) as (url, _),
        pytest.raises(NotFound, match="no job 'j'"),
    ):
        numbers(url)


def test_patience_ends() -> None:
    with answering(lambda lines: b"") as (url, asked), pytest.raises(Broken):
        numbers(url, patience_s=0.2)
    assert len(asked) > 1


def test_closing_ends_it_from_another_thread() -> None:
    held = threading.Event()

    def hold(lines: list[str]) -> bytes:
        held.wait(30)
        return b""

    with answering(hold) as (url, asked):
        following = Following(Wire(url), "j", None)
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.extend(following))
        thread.start()
        while not asked:
            pass
        following.close()
        held.set()
        thread.join(10)
        assert not thread.is_alive()
        assert found == []


def test_what_is_no_server_of_ours_is_a_crash() -> None:
    for status, message in ((200, "something that is no JSON"), (502, "status 502")):
        page = _head(status, "text/html") + b"<html>"
        with answering(lambda lines, page=page: page) as (url, _), pytest.raises(Crashed, match=message):
            Wire(url).ask("GET", "/api/jobs")


def test_messages_are_read_as_the_standard_says() -> None:
    lines = ["event: end", "data: one", "data:  two", "", ": comment", "", "data", "", "data: cut"]
    assert [(found.kind, found.data) for found in messages(lines)] == [("end", "one\n two"), ("message", "")]
    numbered = ["id: 4", "", "data: one", "", "id: 5", "data: two", "", "id: 6"]
    assert [(found.data, found.id) for found in messages(numbered)] == [("", "4"), ("one", "4"), ("two", "5")]
