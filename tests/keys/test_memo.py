"""The memo is only a saving: shared, torn or unwritable, it never changes a digest."""

from __future__ import annotations

import logging
import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from restrike.keys import Digest, bytes_digest, file_digest
from restrike.keys.memo import Memo, Stamp

from .test_files import settle, written

STAMP = Stamp(size_bytes=1, mtime_ns=2, ctime_ns=3, inode=4)
ONE, TWO = Digest("1" * 64), Digest("2" * 64)


def entries(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_it_recalls_the_last_that_it_was_told(tmp_path: Path) -> None:
    memo = Memo(tmp_path)
    assert memo.recall("/a") is None
    memo.remember("/a", STAMP, ONE)
    memo.remember("/a", STAMP, TWO)
    memo.remember("/b\udc80", STAMP, ONE)
    assert memo.recall("/a") == (STAMP, TWO)
    assert memo.recall("/b\udc80") == (STAMP, ONE)
    assert len(entries(tmp_path)) == 2


def test_a_damaged_entry_is_none(tmp_path: Path) -> None:
    memo = Memo(tmp_path)
    memo.remember("/a", STAMP, ONE)
    (entry,) = entries(tmp_path)
    whole = entry.read_bytes()
    for length in range(len(whole)):
        entry.write_bytes(whole[:length])
        assert memo.recall("/a") is None, length
    for at in range(len(whole)):
        entry.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert memo.recall("/a") is None, at
    entry.write_bytes(whole)
    assert memo.recall("/a") == (STAMP, ONE)


def test_an_entry_of_another_path_is_none(tmp_path: Path) -> None:
    memo = Memo(tmp_path)
    memo.remember("/a", STAMP, ONE)
    (of_a,) = entries(tmp_path)
    memo.remember("/b", STAMP, TWO)
    (of_b,) = set(entries(tmp_path)) - {of_a}
    os.replace(of_a, of_b)
    assert memo.recall("/b") is None


@pytest.mark.parametrize(
    ("mtime_ns", "now_ns", "settled"),
    [
        (5_000_000_001, 5_010_000_000, False),
        (5_000_000_001, 5_030_000_000, True),
        (5_000_000_000, 5_030_000_000, False),  # a clock of whole seconds
        (5_000_000_000, 7_000_000_001, True),
        (9_000_000_001, 5_000_000_000, False),  # written in the future
    ],
)
def test_a_fresh_file_is_not_settled(mtime_ns: int, now_ns: int, settled: bool) -> None:
    for times in ({"mtime_ns": mtime_ns, "ctime_ns": 1}, {"mtime_ns": 1, "ctime_ns": mtime_ns}):
        assert Stamp(size_bytes=1, inode=1, **times).is_settled(now_ns) is settled


def test_a_fresh_file_is_not_remembered(tmp_path: Path) -> None:
    file_digest(written(tmp_path / "a", "one"), memo=tmp_path / "memo")
    assert not entries(tmp_path / "memo")


@pytest.mark.parametrize("obstacle", ["file in place of the folder", "full disk"])
def test_a_memo_that_cannot_be_written_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, obstacle: str
) -> None:
    memo = tmp_path / "memo"
    if obstacle == "full disk":

        def full(*args: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "replace", full)
    else:
        memo.write_text("not a folder")
    files = [written(tmp_path / name, name) for name in "abc"]
    settle(*files)
    with caplog.at_level(logging.WARNING):
        assert [file_digest(file, memo=memo) for file in files] == [
            bytes_digest(name) for name in (b"a", b"b", b"c")
        ]
    assert len(caplog.records) == 1
    assert str(memo) in caplog.text
    assert memo.is_file() or not entries(memo)


def test_threads_share_a_memo(tmp_path: Path) -> None:
    memo, known = Memo(tmp_path), {(STAMP, ONE), (STAMP, TWO)}

    def work(turn: int) -> bool:
        memo.remember("/a", STAMP, (ONE, TWO)[turn % 2])
        return memo.recall("/a") in known

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(400)))
    assert len(entries(tmp_path)) == 1


def digests_in_another_process(folder: str, memo: str) -> list[str]:
    return [file_digest(Path(folder) / str(name), memo=Path(memo)).hex for name in range(50)]


def test_processes_share_a_memo(tmp_path: Path) -> None:
    files = [written(tmp_path / "files" / str(name), f"content {name}") for name in range(50)]
    settle(*files)
    arguments = (str(tmp_path / "files"), str(tmp_path / "memo"))
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        results = pool.starmap(digests_in_another_process, [arguments] * 6)
    assert results == [[bytes_digest(b"content %d" % name).hex for name in range(50)]] * 6
    assert len(entries(tmp_path / "memo")) == 50
