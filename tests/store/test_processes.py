"""Several processes on one store: computed once, taken over from the dead, never torn."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from restrike.errors import Cancelled
from restrike.store.leases import Leases
from restrike.store.owner import Owner
from restrike.store.store import Store

from .kept import Put, frames, key

WORKER = """
import sys, time, os
from pathlib import Path
import numpy as np
from restrike.keys import Key, digest
from restrike.store.store import Store

root, log, seconds = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
store = Store(root)
key = Key("step", "1", {"number": 1})
with store.flight(key) as entry:
    if entry is None:
        with log.open("a") as file:
            file.write(f"{os.getpid()}\\n")
        time.sleep(seconds)
        value = np.random.default_rng(1).integers(0, 256, size=4096, dtype=np.uint8)
        kept = store.put(key, value, seconds=seconds, label="l", origin="o", family=digest("f", "1", 0))
        entry = kept.entry
print(entry.value.hex, flush=True)
"""


def start(store: Store, log: Path, seconds: float) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, str(store.root), str(log), str(seconds)],
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_for(log: Path) -> int:
    for _ in range(600):
        if log.exists() and log.read_text().endswith("\n"):
            return int(log.read_text().split()[-1])
        time.sleep(0.05)
    raise AssertionError("no process began to compute")


def test_equal_work_in_flight_runs_once(store: Store, tmp_path: Path) -> None:
    log = tmp_path / "log"
    workers = [start(store, log, 0.5) for _ in range(4)]
    values = [worker.communicate(timeout=120)[0] for worker in workers]
    assert len(set(values)) == 1
    assert len(log.read_text().split()) == 1


def test_a_killed_owner_is_taken_over_at_once(store: Store, tmp_path: Path) -> None:
    log = tmp_path / "log"
    first = start(store, log, 60)
    owner = wait_for(log)
    second = start(store, log, 0)
    os.kill(owner, signal.SIGKILL)
    first.communicate(timeout=60)
    began = time.monotonic()
    out, _ = second.communicate(timeout=60)
    assert out.strip()
    assert time.monotonic() - began < 30
    assert len(log.read_text().split()) == 2


def test_kill_during_a_put_leaves_nothing_torn(store: Store, tmp_path: Path) -> None:
    """Killed at many moments; whatever is visible afterwards is whole."""
    code = """
import sys
from pathlib import Path
import numpy as np
from restrike.keys import Key, digest
from restrike.store.store import Store
store = Store(Path(sys.argv[1]))
print("ready", flush=True)
number = 0
while True:
    value = np.random.default_rng(number).integers(0, 256, size=1 << 20, dtype=np.uint8)
    key = Key("step", "1", {"number": number})
    store.put(key, value, seconds=1, label="l", origin="o", family=digest("f", "1", 0))
    number += 1
"""
    for pause_s in (0.01, 0.03, 0.08, 0.2):
        worker = subprocess.Popen(
            [sys.executable, "-c", code, str(store.root)], stdout=subprocess.PIPE, text=True
        )
        assert worker.stdout is not None
        worker.stdout.readline()
        time.sleep(pause_s)
        worker.kill()
        worker.communicate()
        again = Store(store.root)
        assert again.notice is None
        for number in range(100):
            entry = again.lookup(key(number))
            if entry is None:
                break
            assert np.array_equal(again.read(entry), frames(number, 1 << 20))
        assert again.verify().damaged == ()
        again.collect(0)


def test_waiting_can_be_stopped(store: Store) -> None:
    store.leases.take(f"flight {key(1).digest.hex}", Owner.here())

    def check() -> None:
        raise Cancelled

    with pytest.raises(Cancelled), store.flight(key(1), check):
        raise AssertionError("the lease is another's")


def test_a_lease_expires_when_its_owner_stops_renewing(store: Store) -> None:
    leases = Leases(store._database, lease_s=0.2)
    first, second = Owner.here(), Owner.here()
    assert leases.take("name", first)
    assert not leases.take("name", second)
    time.sleep(0.25)
    assert leases.take("name", second)
    assert not leases.renew("name", first)


def test_a_kept_lease_outlives_its_term(store: Store) -> None:
    leases = Leases(store._database, lease_s=0.4)
    first, second = Owner.here(), Owner.here()
    assert leases.take("name", first)
    with leases.kept("name", first):
        time.sleep(1.0)
        assert not leases.take("name", second)
    assert leases.take("name", second)


def test_a_process_number_used_again_is_another_owner() -> None:
    here = Owner.here()
    assert not here.is_dead()
    assert Owner(host=here.host, pid=here.pid, began="1", token="t").is_dead()
    assert Owner.parse(str(here)) == here


def test_a_failure_in_flight_lets_the_next_one_try(store: Store, put: Put) -> None:
    def fail(entry: object) -> None:
        assert entry is None
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"), store.flight(key(1)) as entry:
        fail(entry)
    with store.flight(key(1)) as entry:
        assert entry is None
        put(1, "value")
    with store.flight(key(1)) as entry:
        assert entry is not None


def test_a_process_that_another_container_counts_is_not_known_to_be_dead() -> None:
    here = Owner.here()
    host, _, counted_by = here.host.rpartition("/")
    gone = replace(here, pid=2**22 + 1)
    assert gone.is_dead()
    assert not replace(gone, host=f"{host}/{int(counted_by) + 1}").is_dead()
