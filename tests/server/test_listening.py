"""A real server on loopback, asked byte by byte: huge and slow bodies, smuggled headers, events."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import uvicorn

from restrike.errors import Shortfall
from restrike.server import streaming
from restrike.server.app import create_app
from restrike.server.database.connect import Database
from restrike.server.hosting import listening
from restrike.server.jobs.model import JobKind, JobState, Outcome, Submission, WorkerFacts
from restrike.server.place import Place
from restrike.server.security.limits import Limits
from restrike.server.service import Service

LIMITS = Limits(body_bytes=10_000, form_bytes=20_000, upload_bytes=100_000, body_s=1.0, pause_s=0.5)
WORKER = WorkerFacts(id="w", device="cpu:0", memory_bytes=1 << 40)


@dataclass(frozen=True)
class Listening:
    """A server without workers, and the port that it listens on."""

    service: Service
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def said(self, *parts: bytes, pause_s: float = 0.0) -> bytes:
        """All that is answered to bytes, sent with pauses between."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as wire:
            for part in parts:
                try:
                    wire.sendall(part)
                except (BrokenPipeError, ConnectionResetError):
                    break
                time.sleep(pause_s)
            answer = b""
            try:
                while part := wire.recv(65536):
                    answer += part
            except (ConnectionResetError, TimeoutError):
                pass
            return answer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listening]:
    place = Place(folder=tmp_path_factory.mktemp("listening") / "data")
    place.make()
    database = Database(place.database_url)
    database.migrate()
    service = Service(place=place, database=database, limits=LIMITS)
    running = uvicorn.Server(listening(create_app(service), port=0))
    thread = threading.Thread(target=running.run)
    thread.start()
    while not running.started:
        time.sleep(0.01)
    yield Listening(service, running.servers[0].sockets[0].getsockname()[1])
    running.should_exit = True
    thread.join()
    database.close()


def request(method: str, path: str, *headers: str, body: bytes = b"") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def files(server: Listening) -> list[Path]:
    return sorted(path for path in server.service.place.workspaces.rglob("*") if path.is_file())


def test_huge_bodies_are_refused_before_they_come(server: Listening) -> None:
    before = files(server)
    for method, path, most in (("POST", "/api/jobs", 10_000), ("PUT", "/api/assets/big.png", 100_000)):
        told = server.said(request(method, path, f"Content-Length: {10**12}"))
        assert told.startswith(b"HTTP/1.1 413")
        chunk = b"%x\r\n%s\r\n" % (5000, b"x" * 5000)
        begins = request(method, path, "Transfer-Encoding: chunked")
        told = server.said(begins, *[chunk] * (most // 5000 + 2), b"0\r\n\r\n")
        assert b"HTTP/1.1 413" in told
    assert files(server) == before
    # Control: one that is within the limit is taken.
    assert httpx.put(f"{server.url}/api/assets/fits.png", content=b"x" * 100_000).status_code == 201


def test_slow_bodies_are_given_up(server: Listening) -> None:
    before = files(server)
    began = time.monotonic()
    for method, path in (("POST", "/api/jobs"), ("PUT", "/api/assets/slow.png")):
        told = server.said(request(method, path, "Content-Length: 100"), b"{", pause_s=0.1)
        assert told.startswith(b"HTTP/1.1 408"), told
    # One byte before each pause is over does not help.
    told = server.said(request("POST", "/api/jobs", "Content-Length: 100"), *[b" "] * 8, pause_s=0.2)
    assert b"HTTP/1.1 408" in told
    assert time.monotonic() - began < 10
    assert files(server) == before


def test_an_upload_that_is_cut_short_leaves_nothing(server: Listening) -> None:
    before = files(server)
    with socket.create_connection(("127.0.0.1", server.port)) as wire:
        wire.sendall(request("PUT", "/api/assets/cut.png", "Content-Length: 100") + b"half")
        time.sleep(0.1)
    time.sleep(0.2)
    assert files(server) == before


@pytest.mark.parametrize(
    "headers",
    [
        ("Content-Length: 3", "Transfer-Encoding: chunked"),
        ("Content-Length: 3", "Content-Length: 4"),
        ("Content-Length: +3",),
        ("Content-Length: 3, 4",),
        ("Transfer-Encoding: xchunked",),
        ("Transfer-Encoding : chunked",),
        ("Host: evil.example",),
        ("X-A: 1\rX-B: 2",),
        ("X: " + "a" * 100_000,),
        ("Origin: http://evil.example",),
    ],
)
def test_smuggled_headers_are_refused(server: Listening, headers: tuple[str, ...]) -> None:
    jobs = server.service.history.counts()
    form = json.dumps({"generation": {"card": "digits", "prompt": "x", "seed": 1}}).encode()
    second = request("POST", "/api/jobs", f"Content-Length: {len(form)}", body=form)
    told = server.said(request("POST", "/api/validate", *headers, body=b"{}\r\n" + second))
    assert told[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 403", b"HTTP/1.1 431", b"HTTP/1.1 501"), told[:200]
    assert told.count(b"HTTP/1.1") == 1
    assert server.service.history.counts() == jobs


# --- events ---


def submitted(server: Listening, seed: int) -> str:
    body = {"card": "digits", "prompt": "x", "seed": seed}
    asked = Submission(kind=JobKind.GENERATION, body=body, workspace="default", priority=seed)
    return server.service.queue.submit(asked).id


def lines(server: Listening, path: str, stop: int | None = None, **headers: str) -> list[dict[str, object]]:
    """The events of a stream up to its end, or so many of them."""
    found: list[dict[str, object]] = []
    with httpx.stream("GET", f"{server.url}{path}", headers=headers, timeout=20) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        for line in answer.iter_lines():
            if line.startswith("data: {") and line != "data: {}":
                found.append(json.loads(line.removeprefix("data: ")))
                if stop is not None and len(found) == stop:
                    return found
            if line == "event: end":
                return found
    raise AssertionError("the stream broke off")


@contextmanager
def working(server: Listening, job: str, count: int) -> Iterator[None]:
    """Something that runs a job and tells of it, while the block reads."""

    def work() -> None:
        queue = server.service.queue
        claimed = queue.claim(WORKER)
        assert claimed is not None
        assert claimed.id == job
        for number in range(count):
            queue.tell(job, "progress", {"done": number})
            time.sleep(0.002)
        queue.finish(job, claimed.attempt, Outcome(state=JobState.SUCCEEDED))

    thread = threading.Thread(target=work)
    thread.start()
    yield
    thread.join()


def test_a_stream_that_comes_back_loses_no_event(server: Listening) -> None:
    job = submitted(server, 1)
    seen: list[dict[str, object]] = []
    with working(server, job, 60):
        while not seen or seen[-1]["data"] != {"state": "succeeded"}:
            last = {"Last-Event-ID": str(seen[-1]["id"])} if seen else {}
            seen += lines(server, f"/api/jobs/{job}/events", stop=7, **last)
    done = [each["data"]["done"] for each in seen if each["kind"] == "progress"]  # type: ignore[index]
    assert done == list(range(60))
    ids = [each["id"] for each in seen]
    assert ids == sorted(set(ids))  # type: ignore[type-var]
    # Who comes late sees the same; who comes after the end is let go at once.
    assert lines(server, f"/api/jobs/{job}/events") == seen
    assert lines(server, f"/api/jobs/{job}/events", **{"Last-Event-ID": str(ids[-1])}) == []


def test_all_jobs_are_followed_from_now_on(server: Listening) -> None:
    start = server.service.history.last_sequence()
    job = submitted(server, 2)
    with working(server, job, 5):
        found = lines(server, f"/api/events?after={start}", stop=8)
    assert {each["job"] for each in found} == {job}
    assert [each["kind"] for each in found] == ["state", "state", *["progress"] * 5, "state"]


def test_a_database_that_goes_away_ends_a_stream_in_order(
    server: Listening, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    job = submitted(server, 4)

    def away(**asked: object) -> None:
        raise Shortfall("the database is away")

    with httpx.stream("GET", f"{server.url}/api/jobs/{job}/events", timeout=20) as answer:
        told = answer.iter_lines()
        assert any('"queued"' in line for line in told)
        monkeypatch.setattr(server.service.history, "events", away)
        server.service.queue.tell(job, "notice", {})
        # It ends whole and without the word that all was told, so that the reader comes back.
        assert "event: end" not in list(told)
    assert "ends early: the database is away" in caplog.text
    assert "Traceback" not in caplog.text
    monkeypatch.undo()
    server.service.queue.cancel(job)
    assert lines(server, f"/api/jobs/{job}/events")[-1]["data"] == {"state": "cancelled"}


def test_bad_places_in_the_events_are_refused(server: Listening) -> None:
    for headers in ({"last-event-id": "x"}, {"last-event-id": "9" * 19 + "9"}, {"last-event-id": "-1"}):
        assert httpx.get(f"{server.url}/api/events", headers=headers).status_code == 400


def test_what_reads_nothing_costs_nothing(server: Listening, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "SEND_S", 0.3)
    job = submitted(server, 3)
    with socket.create_connection(("127.0.0.1", server.port)) as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.sendall(request("GET", f"/api/jobs/{job}/events"))
        big = {"text": "x" * 100_000}
        for _ in range(100):
            server.service.queue.tell(job, "notice", big)
        end = time.monotonic() + 10
        while server.service.news.streams and time.monotonic() < end:
            time.sleep(0.05)
        assert server.service.news.streams == 0
    server.service.queue.cancel(job)


def test_going_away_cancels_nothing(server: Listening) -> None:
    job = submitted(server, 4)
    lines(server, f"/api/jobs/{job}/events", stop=1)
    assert server.service.queue.job(job).state is JobState.QUEUED
    server.service.queue.cancel(job)


def begun(server: Listening, *, stop: int = 0) -> tuple[int, list[int]]:
    """Where a stream of all jobs begins, and the numbers of the first events that it tells."""
    found: list[int] = []
    with (
        httpx.Client(timeout=10) as client,
        client.stream("GET", f"{server.url}/api/events") as answer,
    ):
        for line in answer.iter_lines():
            if line.startswith("id: "):
                found.append(int(line.removeprefix("id: ")))
            if len(found) > stop:
                break
    return found[0], found[1:]


@contextmanager
def chattering(server: Listening, job: str) -> Iterator[None]:
    """Something happens to a job all the time."""
    over = threading.Event()

    def chatter() -> None:
        while not over.wait(0.001):
            server.service.queue.tell(job, "notice", {"text": "x"})

    thread = threading.Thread(target=chatter)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_stream_of_all_jobs_says_where_it_begins_and_misses_nothing_after(server: Listening) -> None:
    job = submitted(server, 5)
    with chattering(server, job):
        for _ in range(10):
            start, told = begun(server, stop=3)
            assert told == [start + 1, start + 2, start + 3]
    # Cut off before the first event, and back after some.
    start, _ = begun(server)
    for number in range(3):
        server.service.queue.tell(job, "notice", {"number": number})
    back = lines(server, "/api/events", stop=3, **{"Last-Event-ID": str(start)})
    assert [each["data"] for each in back] == [{"number": number} for number in range(3)]
    # Control: one that begins anew has missed them, and says so by its number.
    assert begun(server)[0] == start + 3
    server.service.queue.cancel(job)


def test_no_more_readers_come_in_than_there_may_be(
    server: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "STREAMS", 5)
    ready, over = threading.Barrier(20), threading.Event()
    statuses: list[int] = []

    def read() -> None:
        ready.wait()
        with httpx.Client(timeout=10) as client, client.stream("GET", f"{server.url}/api/events") as answer:
            statuses.append(answer.status_code)
            over.wait(10)

    threads = [threading.Thread(target=read) for _ in range(20)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 10
    while len(statuses) < 20 and time.monotonic() < end:
        time.sleep(0.01)
    over.set()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200] * 5 + [507] * 15
    while server.service.news.streams and time.monotonic() < end:
        time.sleep(0.01)
    assert begun(server)  # There is room again.
