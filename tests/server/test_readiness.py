"""A server is ready once a real request passed through a worker; until then it says why it is not."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import anyio
import pytest

from restrike.server.database.connect import Database, sqlite_url
from restrike.server.jobs.queue import Queue
from restrike.server.jobs.switches import Switches
from restrike.server.readiness import Readiness
from restrike.server.workers import WorkerRow, Workers
from restrike.store.owner import Owner
from serving import STOP_S, until

AILING = Path(__file__).with_name("ailing.py")
ILL = "RuntimeError: the device gives errors only"


@dataclass
class Beginning:
    """A server that may never become ready, so that its address is not read from it."""

    url: str
    process: subprocess.Popen[str]

    def ready(self) -> tuple[int, str]:
        """The status of `/readyz`, and why; 0 before anyone answers."""
        try:
            with urlopen(f"{self.url}/readyz") as answer:
                return answer.status, ""
        except HTTPError as answer:
            with answer:
                return answer.code, json.load(answer)["why"]
        except URLError:
            return 0, ""

    def stop(self) -> tuple[str, str]:
        """Interrupt it; all that it said on stdout and on stderr."""
        self.process.send_signal(signal.SIGINT)
        return self.process.communicate(timeout=STOP_S)


@contextmanager
def beginning(folder: Path) -> Iterator[Beginning]:
    """A server with one worker that runs `ailing`, killed at the end if it was not stopped."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    words = ["--port", str(port), "--data", "data", "--devices", "cpu:0", "--allow-code", "ailing.py"]
    process = subprocess.Popen(
        [sys.executable, "-m", "restrike", "serve", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "RESTRIKE_STORE": str(folder / "store")},
    )
    try:
        yield Beginning(f"http://127.0.0.1:{port}", process)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(AILING, tmp_path)
    return tmp_path


def test_a_proof_that_fails_keeps_it_from_being_ready(folder: Path) -> None:
    ill = folder / "ailing.run"
    with beginning(folder) as server:  # The control: the same server, with nothing wrong.
        until(lambda: server.ready() == (200, ""))
        out, err = server.stop()
    assert (out, err.count("not ready")) == (f"listening on {server.url}\n", 0)
    ill.touch()
    # What the first start computed is kept, and must prove nothing.
    with beginning(folder) as server:
        until(lambda: "did not pass" in server.ready()[1])
        code, why = server.ready()
        assert (code, why) == (503, f"the first request did not pass: {ILL}")
        out, err = server.stop()
    assert out == ""
    assert f"not ready: {why}\n" in err


def test_a_worker_that_cannot_load_is_named_and_once_it_can_the_server_is_ready(folder: Path) -> None:
    ill = folder / "ailing.load"
    ill.touch()
    with beginning(folder) as server:
        until(lambda: "died" in server.ready()[1])
        code, why = server.ready()
        assert code == 503
        assert why == (
            "no request has passed through a worker yet; "
            "the worker of cpu:0 died: it ended with status 1; its log says why"
        )
        assert "no driver" in (folder / "data" / "logs" / "worker-cpu-0.log").read_text()
        ill.unlink()
        until(lambda: server.ready()[0] == 200)
        out, err = server.stop()
    assert out == f"listening on {server.url}\n"
    assert f"not ready: {why}\n" in err


def test_a_server_without_any_worker_is_ready_no_more(tmp_path: Path) -> None:
    database = Database(sqlite_url(tmp_path / "x.sqlite"))
    database.migrate()
    switches, workers = Switches(database), Workers(database)
    switches.set_paused(True)  # so that nothing has to be proved
    readiness = Readiness(Queue(database), switches, workers, tuple)
    anyio.run(readiness.prove)
    assert readiness.why() == "no worker is there to take jobs"
    owner = str(Owner.here())
    workers.register(WorkerRow(id="w", device="cpu:0", owner=owner, server=owner, memory_bytes=1))
    assert readiness.why() is None
    workers.leave("w")
    assert readiness.why() is not None
    database.close()
