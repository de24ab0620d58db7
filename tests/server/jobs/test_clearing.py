"""Wishes to clear a worker's memory: beside no running job, and no job beside a wish."""

from __future__ import annotations

import pytest

from restrike.errors import Conflict
from restrike.server.database.connect import Database
from restrike.server.jobs.clearing import Clearing
from restrike.server.jobs.model import WorkerFacts
from restrike.server.jobs.queue import Queue
from restrike.server.workers import WorkerRow, Workers
from restrike.store.owner import Owner
from server.jobs.asking import asked


def facts(name: str) -> WorkerFacts:
    return WorkerFacts(id=name, device=f"cpu:{name}", memory_bytes=1 << 40)


def here(database: Database, *names: str) -> None:
    owner = str(Owner.here())
    for name in names:
        Workers(database).register(
            WorkerRow(id=name, device=f"cpu:{name}", owner=owner, server=owner, memory_bytes=1 << 40)
        )


def test_a_worker_that_is_to_clear_takes_no_job_until_it_has(database: Database) -> None:
    queue, clearing = Queue(database), Clearing(database)
    here(database, "a", "a b")
    job = queue.submit(asked())
    wishes = [clearing.ask("a"), clearing.ask("a")]
    assert clearing.waits("a")
    assert not clearing.waits("a b")
    assert queue.claim(facts("a")) is None
    assert [clearing.answer(wish) for wish in wishes] == [None, None]
    clearing.done("a", 7)
    assert [clearing.answer(wish) for wish in wishes] == [7, 7]
    assert not clearing.waits("a")
    claimed = queue.claim(facts("a"))
    assert claimed is not None
    assert claimed.id == job.id


def test_a_wish_for_one_keeps_no_other_from_its_job(database: Database) -> None:
    queue = Queue(database)
    here(database, "a", "b")
    queue.submit(asked())
    Clearing(database).ask("a")
    assert queue.claim(facts("b")) is not None


def test_a_worker_that_runs_a_job_is_not_asked(database: Database) -> None:
    queue, clearing = Queue(database), Clearing(database)
    here(database, "a")
    queue.submit(asked())
    job = queue.claim(facts("a"))
    assert job is not None
    with pytest.raises(Conflict, match=job.id):
        clearing.ask("a")
    assert not clearing.waits("a")


def test_a_wish_that_is_withdrawn_or_nobodys_is_forgotten(database: Database) -> None:
    queue, clearing = Queue(database), Clearing(database)
    here(database, "a", "b")
    queue.submit(asked())
    clearing.withdraw(clearing.ask("a"))
    clearing.ask("b")
    Workers(database).leave("b")
    clearing.withdraw(clearing.ask("a"))
    assert not clearing.waits("b")
    assert queue.claim(facts("a")) is not None
