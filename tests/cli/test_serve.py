"""restrike serve and tokens: who may listen where, and how a server begins, ends and begins again."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from http.client import HTTPConnection
from pathlib import Path
from urllib.error import HTTPError

import pytest

from cli.conftest import Restrike
from restrike.cli import serve
from restrike.client.client import Client
from restrike.errors import Refused
from restrike.server.jobs.model import JobState
from serving import Server, begun, served, until

_BADGE = """
from dataclasses import dataclass

import restrike


@dataclass
class Ask:
    words: str


@restrike.endpoint(slots={"painter": restrike.Slot()})
def badge(ctx: restrike.Context, payload: Ask) -> str:
    return payload.words
"""


def test_what_is_missing_is_named_with_its_extra(restrike: Restrike, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "find_spec", lambda name: None if name == "uvicorn" else object())
    done = restrike("serve")
    assert done.code == 2
    assert done.err == "restrike: a server needs uvicorn: pip install 'restrike[server]'\n"


def test_others_are_not_let_in_without_a_token(restrike: Restrike, tmp_path: Path) -> None:
    done = restrike("serve", "--host", "0.0.0.0", "--port", 0, "--data", "data", "--devices", "cpu:0")
    assert done.code == 2
    assert "needs a token" in done.err
    assert "restrike tokens new" in done.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--devices", "tpu:0"), "device 'tpu:0' is none"),
        (("--devices", "cpu:0,cpu:0"), "cpu:0 is there twice"),
        (("--host", "no.such.host.invalid"), "--host no.such.host.invalid"),
        (("--workspace", "../up"), "is no workspace"),
        (("--database", "mysql://x/y"), "database"),
        (("--capture", "sometimes"), "sometimes"),
        (("--allow-code", "none.py"), "none.py"),
        (("--endpoints", "none.py"), "--endpoints none.py: no file at 'none.py'"),
        (("--endpoints", serve.__file__), "declares no endpoint"),
        (("--slot", "pipeline=digits"), "unknown slot 'pipeline'"),
        (("--allow-code", __file__), "registers no task"),
    ],
)
def test_a_fault_is_told_before_anything_starts(
    restrike: Restrike, options: tuple[str, ...], message: str
) -> None:
    done = restrike("serve", "--port", 0, "--data", "data", *options)
    assert done.code == 2
    assert message in done.err


def test_an_empty_slot_is_warned_of_and_the_server_starts(tmp_path: Path) -> None:
    (tmp_path / "badge.py").write_text(_BADGE)
    with served(tmp_path / "data", "--devices", "cpu:0", "--endpoints", str(tmp_path / "badge.py")) as server:
        code, said = server.stop()
    assert code == 0
    assert "warning: endpoint 'badge': slot 'painter' is empty" in said


def test_a_port_that_is_taken_is_refused(restrike: Restrike) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = restrike("serve", "--port", port, "--data", "data", "--devices", "cpu:0")
    assert done.code == 2
    assert f"--port {port}" in done.err


def test_tokens_are_made_listed_and_deleted(restrike: Restrike) -> None:
    here = ("--data", "data")
    made = restrike("tokens", "new", "ci", "--scope", "run", "--json", *here).json
    assert made["scopes"] == ["read", "run"]
    assert "a token 'ci'" in restrike("tokens", "new", "ci", *here).err
    assert "unknown scope 'root'" in restrike("tokens", "new", "me", "--scope", "root", *here).err
    listed = restrike("tokens", "list", "--json", *here)
    assert [token["name"] for token in listed.json["tokens"]] == ["ci"]
    assert made["token"] not in listed.out
    assert "read, run" in restrike("tokens", "list", *here).out
    assert restrike("tokens", "delete", "ci", *here).out == "deleted ci\n"
    assert "no token 'ci'" in restrike("tokens", "delete", "ci", *here).err
    assert restrike("tokens", "list", *here).err == "no tokens\n"


def test_a_server_that_others_reach_asks_for_a_token(restrike: Restrike, tmp_path: Path) -> None:
    token = restrike("tokens", "new", "me", "--scope", "read", "--data", tmp_path / "data").out.strip()
    with served(tmp_path / "data", "--host", "0.0.0.0", "--devices", "cpu:0") as server:
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        with pytest.raises(HTTPError) as raised:
            urllib.request.urlopen(f"{url}/api/jobs")
        assert raised.value.code == 401
        raised.value.close()
        with pytest.raises(Refused, match="needs a token"):
            Client(url).jobs()
        client = Client(url, token=token)
        assert client.jobs() == ()
        with pytest.raises(Refused, match="lacks the scope 'run'"):
            client.generate("a two", card="digits")


def test_an_interrupt_stops_in_order_and_the_next_start_goes_on(tmp_path: Path) -> None:
    options = ("--devices", "cpu:0", "--workspace", "mine")
    with served(tmp_path / "data", *options) as server:
        client = Client(server.url, workspace="mine")
        running = client.generate("a two", card="digits", steps=1000, seed=1)
        waiting = client.generate("a two", card="digits", steps=2, seed=1)
        until(lambda: client.job(running.id).state is JobState.RUNNING)
        following = client.following(running.id)
        next(iter(following))
        began_s = time.monotonic()
        code, said = server.stop()
        assert code == 0
        assert said.splitlines() == [
            f"starting {server.url}; wait until it says that it listens",
            "stopped; jobs that were not finished go on with the next start",
        ]
        assert time.monotonic() - began_s < 20
    with served(tmp_path / "data", *options) as server:
        client = Client(server.url, workspace="mine")
        assert client.wait(waiting.id).state is JobState.SUCCEEDED
        assert client.job(running.id).state in (JobState.RUNNING, JobState.QUEUED, JobState.SUCCEEDED)
        client.cancel(running.id)
        assert client.wait(running.id).kills == 0


def test_one_that_a_shell_started_in_the_background_says_that_it_stopped(tmp_path: Path) -> None:
    # Such a shell lets its children ignore interrupts.
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        server = begun(tmp_path / "data", "--devices", "cpu:0")
    finally:
        signal.signal(signal.SIGINT, previous)
    code, said = server.stop()
    assert (code, said.splitlines()[-1][:8]) == (0, "stopped;")


def test_who_comes_too_early_waits_and_is_not_turned_away(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["serve", "--port", str(port), "--data", str(tmp_path / "data"), "--devices", "cpu:0"]
    command = [sys.executable, "-m", "restrike", *words]
    env = {**os.environ, "RESTRIKE_STORE": str(tmp_path / "store")}
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, env=env) as starting:
        try:
            until(lambda: _is_open(port))
            # No request has passed through a worker by now; the job is accepted all the same.
            assert Client(f"http://127.0.0.1:{port}").generate("a two", card="digits", steps=2).id
        finally:
            starting.terminate()


def _is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


def test_with_drain_what_runs_comes_to_its_end(tmp_path: Path) -> None:
    with served(tmp_path / "data", "--devices", "cpu:0", "--drain") as server:
        client = Client(server.url)
        job = client.generate("a two", card="digits", steps=200, seed=1)
        until(lambda: client.job(job.id).state is JobState.RUNNING)
        assert server.stop()[0] == 0
    with served(tmp_path / "data", "--devices", "cpu:0") as server:
        found = Client(server.url).job(job.id)
        assert (found.state, found.attempt) == (JobState.SUCCEEDED, 1)


def test_what_said_that_it_listens_is_ready(server: Server) -> None:
    with urllib.request.urlopen(f"{server.url}/readyz") as answer:
        assert json.load(answer) == {"status": "ready"}


def test_an_answer_does_not_wait_for_an_acknowledgement(server: Server) -> None:
    connection = HTTPConnection(server.url.removeprefix("http://"))
    seconds = []
    for _ in range(50):
        began_s = time.perf_counter()
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        seconds.append(time.perf_counter() - began_s)
    connection.close()
    # With Nagle's algorithm none takes less than 40 ms; on a busy machine the quickest still does.
    assert min(seconds) < 0.02
