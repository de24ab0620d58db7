"""What is lost least goes first; what a pin, a run or a lease needs stays."""

from __future__ import annotations

import os
import time

import pytest

from restrike.store.owner import Owner
from restrike.store.store import Store
from restrike.store.values import blobs_of

from .kept import Put, frames, key

SIZE = 1000
EACH = SIZE + 100
"""Room for one entry: its blob and its document."""


def kept(store: Store) -> set[int]:
    return {number for number in range(50) if store.lookup(key(number)) is not None}


def test_the_cheapest_per_byte_goes_first(store: Store, put: Put) -> None:
    for number, seconds in enumerate([5.0, 0.1, 3.0, 0.2]):
        put(number, frames(number, SIZE), seconds=seconds)
    assert store.collect(2 * EACH).evicted == 2
    assert kept(store) == {0, 2}
    assert store.stats().size_bytes == 2 * SIZE


def test_a_big_cheap_thing_goes_before_small_ones(store: Store, put: Put) -> None:
    put(0, frames(0, 100 * SIZE), seconds=2.0)
    put(1, frames(1, SIZE), seconds=1.0)
    store.collect(50 * SIZE)
    assert kept(store) == {1}


def test_use_counts(store: Store, put: Put) -> None:
    first = put(0, frames(0, SIZE), seconds=1.0).entry
    put(1, frames(1, SIZE), seconds=1.5)
    for run in range(3):
        with store.holding(f"w/{run}") as hold:
            hold(first)
    store.collect(EACH)
    assert kept(store) == {0}


def test_what_was_worth_much_yields_in_time(store: Store, put: Put) -> None:
    """Without the clock an entry that is never used again would stay for ever."""
    put(0, frames(0, SIZE), seconds=3.0)
    for number in range(1, 12):
        put(number, frames(number, SIZE), seconds=1.0)
        store.collect(2 * EACH)
    assert 0 not in kept(store)


def test_a_pinned_entry_stays_until_it_is_unpinned(store: Store, put: Put) -> None:
    put(0, frames(0, SIZE), seconds=0.001)
    put(1, frames(1, SIZE), seconds=9.0)
    store.pin(key(0), "mine")
    store.collect(0)
    assert kept(store) == {0}
    store.pin(key(0), None)
    store.collect(0)
    assert kept(store) == set()


def test_a_live_run_keeps_what_it_holds(store: Store, put: Put) -> None:
    entry = put(0, frames(0, SIZE)).entry
    with store.holding("w/0001") as hold:
        hold(entry)
        store.collect(0)
        assert kept(store) == {0}
    store.collect(0)
    assert kept(store) == set()


def test_a_dead_run_keeps_nothing(store: Store, put: Put) -> None:
    entry = put(0, frames(0, SIZE)).entry
    pid = os.fork()
    if pid == 0:
        store.leases.take("run dead", Owner.here())
        store._eviction.hold("run dead", entry.key.digest)
        os._exit(0)
    os.waitpid(pid, 0)
    report = store.collect(0)
    assert report.dead_leases == 1
    assert kept(store) == set()


def test_a_blob_that_two_entries_name_stays_with_the_second(store: Store, put: Put) -> None:
    put(0, frames(7, SIZE), seconds=0.1)
    put(1, {"same": frames(7, SIZE)}, seconds=9.0)
    put(2, frames(2, SIZE), seconds=5.0)
    store.collect(2 * SIZE - 1)
    entry = store.lookup(key(1))
    assert entry is not None
    store.read(entry)


def test_a_put_over_the_limit_evicts_others_not_itself(store: Store, put: Put) -> None:
    store.limit_bytes = 2 * EACH
    for number in range(5):
        put(number, frames(number, SIZE), seconds=float(5 - number))
        assert number in kept(store)
    assert len(kept(store)) == 2


def test_orphans_go_only_when_they_are_old(store: Store) -> None:
    from restrike.keys import bytes_digest

    digest = bytes_digest(b"orphan")
    store.blobs.put(digest, b"orphan")
    assert store.collect().orphans == 0
    old = time.time() - 7200
    os.utime(store.blobs.path(digest), (old, old))
    store.blobs.put(digest, b"orphan")  # wanted again: young again
    assert store.collect().orphans == 0
    os.utime(store.blobs.path(digest), (old, old))
    report = store.collect()
    assert (report.orphans, report.freed_bytes) == (1, 6)


def test_leftovers_of_dead_writers_are_swept(store: Store) -> None:
    leftover = store.root / "partial" / "x"
    leftover.parent.mkdir(parents=True)
    leftover.write_bytes(b"half")
    assert store.collect().partial == 0
    os.utime(leftover, (0, 0))
    assert store.collect().partial == 1


@pytest.mark.parametrize("limit_bytes", [0, EACH, 10 * EACH])
def test_stats_count_what_is_there(store: Store, put: Put, limit_bytes: int) -> None:
    for number in range(4):
        put(number, frames(number, SIZE), label=f"task {number % 2}")
    store.collect(limit_bytes)
    stats = store.stats()
    assert stats.entries == len(kept(store)) == min(4, limit_bytes // EACH)
    assert stats.size_bytes == stats.entries * SIZE
    assert sum(stats.by_label.values()) == stats.entries


def test_what_lies_in_the_index_counts_too(store: Store, put: Put) -> None:
    store.limit_bytes = 50_000
    for number in range(20):
        put(number, f"{number} " * 5_000, seconds=float(number + 1))
    assert 0 < len(kept(store)) <= 5


def test_the_count_of_what_is_kept_is_that_of_a_sum(store: Store, put: Put) -> None:
    """It is kept as entries come and go, and made once for an index of an earlier version."""
    for number in range(6):
        put(number, [frames(number % 4, SIZE), "text"], seconds=float(number))
    store.collect(3 * EACH)
    store.remove(key(5))
    entries = [entry for number in kept(store) if (entry := store.lookup(key(number))) is not None]
    blobs = {blob for entry in entries for blob in blobs_of(entry.document)}
    total = sum(len(entry.document) for entry in entries) + SIZE * len(blobs)
    assert entries
    assert store._eviction._kept_bytes() == total
    with store._database.write() as connection:
        for name in ("entry_kept", "entry_gone", "blob_kept", "blob_gone"):
            connection.exec_driver_sql(f"DROP TRIGGER {name}")
        connection.exec_driver_sql("DELETE FROM meta")
        connection.exec_driver_sql("PRAGMA user_version = 1")
    again = Store(store.root)
    assert again._eviction._kept_bytes() == total
    again.remove(entries[0].key)
    assert again._eviction._kept_bytes() < total
