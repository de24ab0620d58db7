"""The worker itself: what is left of it when it ends in order, and when it fails."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from restrike.server.database.connect import Database
from restrike.server.jobs.clearing import Clearing
from restrike.server.jobs.queue import Queue
from restrike.server.worker.attendance import Attendance
from restrike.server.worker.lines import DRAIN, Orders
from restrike.server.worker.worker import Worker
from restrike.server.workers import WorkerRow, Workers
from server.jobs.asking import asked

_ROW = WorkerRow(id="w", device="cpu:0", owner="h 1 2 t", server="h 3 4 t", memory_bytes=1 << 30)


class _Broken:
    """A machine with a fault of its own, which no job can be told of."""

    options = SimpleNamespace(growth_bytes=1 << 30)
    engine = None

    def session(self, workspace: str) -> None:
        raise KeyError(workspace)

    def close(self) -> None:
        pass


def _worker(database: Database, orders: Orders) -> Worker:
    queue, workers = Queue(database), Workers(database)
    machine: Any = _Broken()
    attendance = Attendance(_ROW, workers, queue, orders, print)
    return Worker(machine, queue, workers, Clearing(database), attendance, orders, lambda: None)


def test_one_that_ends_in_order_is_known_no_more(database: Database) -> None:
    orders = Orders()
    orders.give(DRAIN)
    assert _worker(database, orders).run() == 0
    assert Workers(database).all() == ()


def test_one_that_fails_is_known_until_its_job_was_given_back(database: Database) -> None:
    # By one who does not know it, the job would be given back as if it had nothing to do with the failure.
    Queue(database).submit(asked())
    with pytest.raises(KeyError):
        _worker(database, Orders()).run()
    assert [row.id for row in Workers(database).all()] == ["w"]
