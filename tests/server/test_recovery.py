"""What belongs to nobody is recovered, and what no worker will ever have room for is not waited for."""

from __future__ import annotations

from pathlib import Path

import pytest

from restrike.server import recovery
from restrike.server.database.connect import Database, sqlite_url
from restrike.server.jobs.history import History
from restrike.server.jobs.model import JobState
from restrike.server.jobs.queue import Queue
from restrike.server.recovery import Recovery
from restrike.server.workers import WorkerRow, Workers
from restrike.store.owner import Owner
from server.jobs.asking import asked


def test_a_job_waits_for_a_worker_and_not_for_one_that_never_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "STALLED_S", 0.0)
    database = Database(sqlite_url(tmp_path / "x.sqlite"))
    database.migrate()
    queue, workers = Queue(database), Workers(database)
    watched = Recovery(queue, History(database), workers)
    big, small = queue.submit(asked(need_bytes=2000)), queue.submit(asked("an eight", need_bytes=500))
    # Nobody is there yet: any worker may still come.
    assert watched.refuse_unfit() == 0
    owner = str(Owner.here())
    workers.register(WorkerRow(id="w", device="cpu:0", owner=owner, server=owner, memory_bytes=1000))
    assert watched.refuse_unfit() == 1
    failure = queue.job(big.id).failure
    assert failure is not None
    assert failure.reason == "its weights have 2000 bytes; the largest device, cpu:0, has 1000"
    assert queue.job(small.id).state is JobState.QUEUED
    database.close()
