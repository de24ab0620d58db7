"""Looking up, keeping, reading: full keys, verified blobs, first writer wins."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

import numpy as np
import pytest

import restrike.store.blobs as blobs_module
from restrike.errors import NotFound, Refused, Shortfall
from restrike.keys import Key
from restrike.store.blobs import Damaged
from restrike.store.schema import entries
from restrike.store.store import Store

from .kept import Put, family, frames, key


def test_a_kept_value_comes_back_in_another_store_object(store: Store, put: Put) -> None:
    kept = put(1, {"frames": frames(1), "note": "é"})
    again = Store(store.root)
    entry = again.lookup(key(1))
    assert entry is not None
    assert entry.value == kept.entry.value
    value = again.read(entry)
    assert np.array_equal(value["frames"], frames(1))
    assert value["note"] == "é"
    assert again.lookup(key(2)) is None


def test_the_full_key_is_compared_not_its_digest(store: Store, put: Put) -> None:
    put(1, "right")
    with store._database.write() as connection:
        connection.execute(entries.update().values(encoding=key(2).encoding))
    assert store.lookup(key(1)) is None


def test_the_first_value_stays_and_the_other_is_told(store: Store, put: Put) -> None:
    first = put(1, frames(1))
    second = put(1, frames(2))
    assert first.other is None
    assert second.other is not None
    assert second.entry.value == first.entry.value
    entry = store.lookup(key(1))
    assert entry is not None
    assert np.array_equal(store.read(entry), frames(1))


@pytest.mark.parametrize("harm", ["flip", "cut", "delete", "empty"])
def test_a_damaged_blob_is_never_handed_out(store: Store, put: Put, harm: str) -> None:
    entry = put(1, frames(1)).entry
    (path,) = (store.root / "blobs").glob("??/*")
    data = path.read_bytes()
    if harm == "delete":
        path.unlink()
    else:
        path.write_bytes({"flip": data[:9] + b"\0\1" + data[11:], "cut": data[:-1], "empty": b""}[harm])
    with pytest.raises(Damaged, match="blob"):
        store.read(entry)
    assert store.lookup(key(1)) is None
    assert not path.exists()
    put(1, frames(1))
    again = store.lookup(key(1))
    assert again is not None
    assert np.array_equal(store.read(again), frames(1))


def test_verify_finds_what_reading_would(store: Store, put: Put) -> None:
    put(1, frames(1))
    put(2, frames(2), label="generate shapes")
    path = store.blobs.path(next(iter(store.blobs.present()))[0])
    path.write_bytes(b"x")
    report = store.verify()
    assert report.entries == 2
    assert len(report.damaged) == 1
    assert store.verify().damaged == ()
    assert list((store.root / "quarantine").iterdir())


def test_a_truncated_index_is_set_aside_and_said(store: Store, put: Put) -> None:
    put(1, frames(1))
    index = store.root / "index.sqlite"
    for name in ("index.sqlite-wal", "index.sqlite-shm"):
        (store.root / name).unlink(missing_ok=True)
    index.write_bytes(index.read_bytes()[:5000])
    again = Store(store.root)
    assert again.notice is not None
    assert "set aside" in again.notice
    assert again.lookup(key(1)) is None
    again.put(key(1), frames(1), seconds=1, label="l", origin="o", family=family())
    assert again.lookup(key(1)) is not None


def test_an_index_of_a_later_version_is_refused(store: Store) -> None:
    with store._database.write() as connection:
        connection.exec_driver_sql("PRAGMA user_version = 99")
    with pytest.raises(Refused, match="version 99"):
        Store(store.root)


def test_a_full_disk_keeps_nothing_and_breaks_nothing(
    store: Store, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(1, frames(1))

    def full(path: Path, data: object) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(blobs_module, "write_synced", full)
    with pytest.raises(Shortfall, match="no space"):
        put(2, frames(2))
    monkeypatch.undo()
    assert store.lookup(key(2)) is None
    assert not list((store.root / "partial").iterdir())
    entry = store.lookup(key(1))
    assert entry is not None
    assert np.array_equal(store.read(entry), frames(1))


def test_the_nearest_key_is_the_one_with_fewest_differences(store: Store, put: Put) -> None:
    put(1, "a", colour="red", size=1)
    put(2, "b", colour="red", size=2)
    put(3, "c", colour="blue", size=3)
    nearest = store.nearest(Key("step", "1", {"number": 2, "colour": "red", "size": 9}), "task t")
    assert nearest is not None
    assert nearest.parts["number"] == 2
    assert store.nearest(key(9), "another task") is None


def test_the_nearest_key_is_of_the_same_scope_and_of_an_origin_that_counts(store: Store, put: Put) -> None:
    put(1, "a", scope="shared")
    put(2, "b", scope="workspace x")
    mine = Key("step", "1", {"number": 3, "scope": "workspace x"})
    nearest = store.nearest(mine, "task t")
    assert nearest is not None
    assert nearest.parts["number"] == 2
    assert store.nearest(mine, "task t", counts=lambda origin: False) is None
    assert store.nearest(Key("step", "1", {"number": 3, "scope": "workspace y"}), "task t") is None
    assert store.nearest(key(3), "task t") is None


def test_families_and_timings(store: Store, put: Put) -> None:
    put(1, "a")
    assert store.has_family(family(1))
    assert not store.has_family(family(2))
    for seconds in range(60):
        store.record_timing("generate shapes", float(seconds))
    taken = store.timings("generate shapes")
    assert taken[0] == 59.0
    assert len(taken) == 50
    assert store.timings("other") == ()


def test_an_entry_is_found_by_the_head_of_its_digest(store: Store, put: Put) -> None:
    entry = put(1, "a").entry
    assert store.find(entry.key.digest.hex[:10]).key == entry.key
    with pytest.raises(NotFound, match="begins with"):
        store.find("zz")
    put(2, "b")
    with pytest.raises(Refused, match="several"):
        store.find("")


def test_a_store_that_cannot_be_written_is_still_read(
    store: Store, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = put(1, frames(1)).entry
    monkeypatch.setattr(store._database, "writable", False)
    assert np.array_equal(store.read(entry), frames(1))
    with store.flight(key(2)) as found:
        assert found is None
    with pytest.raises(Refused, match="cannot be written"):
        put(2, frames(2))


def test_publishing_gives_an_independent_file(store: Store, put: Put, tmp_path: Path) -> None:
    put(1, frames(1))
    ((digest, size_bytes, _),) = store.blobs.present()
    target = tmp_path / "run" / "a.bin"
    store.blobs.publish(digest, target)
    assert target.read_bytes() == frames(1).tobytes()
    assert target.stat().st_size == size_bytes
    assert target.stat().st_nlink == 1
    target.write_bytes(b"edited")
    assert store.blobs.is_whole(digest)
    store.blobs.path(digest).write_bytes(b"damaged")
    with pytest.raises(Damaged):
        store.blobs.publish(digest, target)
    assert target.read_bytes() == b"edited"


def _edited(store: Store, statement: str, value: object) -> Store:
    """The store as another process sees it after its index was edited behind its back."""
    with store._database.write() as connection:
        connection.exec_driver_sql(statement, (value,))
    return Store(store.root)


@pytest.mark.parametrize("column", ["document", "encoding", "value"])
def test_an_index_that_says_something_else_is_not_believed(store: Store, put: Put, column: str) -> None:
    right = put(1, "right").entry
    wrong = put(2, "wrong").entry
    said = {"document": wrong.document, "encoding": wrong.key.encoding, "value": wrong.value.hex}
    again = _edited(store, f"UPDATE entries SET {column} = ? WHERE label = 'task t'", said[column])
    assert again.lookup(key(1)) is None
    kept = again.put(key(1), "right", seconds=1, label="task t", origin="o", family=family())
    assert kept.entry.value == right.value
    assert kept.other is None
    assert again.read(kept.entry) == "right"


def test_verify_forgets_what_the_index_garbled(store: Store, put: Put) -> None:
    put(1, "right")
    again = _edited(store, "UPDATE entries SET encoding = ?", b"junk")
    with pytest.raises(Damaged, match="verify"):
        again.find("")
    assert again.nearest(key(2), "task t") is None
    assert len(again.verify().damaged) == 1
    assert again.stats().entries == 0


def test_an_index_torn_in_its_middle_is_set_aside_when_it_is_met(
    store: Store, put: Put, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(100):
        put(number, "text " * 200)
    store._database._engine.dispose()  # pyright: ignore[reportOptionalMemberAccess]
    with sqlite3.connect(store.root / "index.sqlite") as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    index = store.root / "index.sqlite"
    index.write_bytes(index.read_bytes()[:4096] + b"\xa5" * (index.stat().st_size - 4096))
    again, other = Store(store.root), Store(store.root)
    assert again.notice is None
    assert again.lookup(key(1)) is None
    assert "set aside" in caplog.text
    kept = again.put(key(1), "text", seconds=1, label="l", origin="o", family=family())
    # Another process that met the torn one too must leave the new one where it is.
    assert other.lookup(key(2)) is None
    assert Store(store.root).lookup(key(1)) == kept.entry


@pytest.mark.parametrize("name", ["a?b=c", "a%20b", "a#b", "a?mode=memory", "ä b", ":memory:"])
def test_a_store_lies_where_it_is_told_to(tmp_path: Path, name: str) -> None:
    store = Store(tmp_path / name)
    store.put(key(1), "v", seconds=1, label="l", origin="o", family=family())
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert Store(tmp_path / name).lookup(key(1)) is not None


def test_a_blob_that_cannot_be_written_is_a_refusal(store: Store, put: Put) -> None:
    put(1, "v")
    (store.root / "blobs").write_text("in the way")
    with pytest.raises(Refused, match="Not a directory"):
        put(2, frames(2))
