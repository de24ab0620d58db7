"""`restrike cells`: the verbs, what they print, and how they end."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mint.cells import MEMBERS, Making
from mint.rewriting import Parts
from restrike.keys import Digest
from restrike.mint.cell.host import cpu_target, this_host
from restrike.mint.store import place as place_of_cells
from restrike.mint.store.store import CellStore
from restrike.settings import settings
from restrike.store import files

from .conftest import Restrike


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CellStore]:
    """The cells of this machine's settings, which lead into the test's folder."""
    monkeypatch.setenv("RESTRIKE_STORE", str(tmp_path / "store"))
    monkeypatch.delenv("RESTRIKE_CELLS", raising=False)
    settings.cache_clear()
    yield CellStore(tmp_path / "store" / "cells")
    settings.cache_clear()


HERE = this_host(cpu_target())
GOOD = Making(stack=HERE.stack("aot"), target=HERE.target)


def kept(store: CellStore, making: Making = GOOD) -> Digest:
    file = making.sealed(store.root.parent / "made" / "a.cell", store.ring.signer())
    store.publish(file)
    key = Parts.of(file).key
    shutil.rmtree(file.parent)
    return key


def flip(store: CellStore, key: Digest) -> None:
    data = bytearray(store.path(key).read_bytes())
    data[-1] ^= 1
    store.path(key).write_bytes(data)


def test_an_empty_store_says_what_to_do(restrike: Restrike, store: CellStore) -> None:
    done = restrike("cells", "list")
    assert done.code == 0
    assert "restrike mint" in done.out
    assert restrike("cells", "list", "--json").json["cells"] == []
    assert not store.root.exists()


def test_the_list_says_what_loads_here(restrike: Restrike, store: CellStore) -> None:
    key = kept(store)
    older = kept(store, replace(GOOD, stack=replace(GOOD.stack, torch="2.12.0+cpu")))
    bad = kept(store, GOOD.with_facts(graph="6" * 64))
    store.path(bad).write_bytes(b"")
    done = restrike("cells", "list")
    assert f"{key.hex[:12]}  loads here" in done.out
    assert f"{older.hex[:12]}  other torch version" in done.out
    found = {cell["key"]: cell for cell in restrike("cells", "list", "--json").json["cells"]}
    assert found[key.hex]["refusal"] is None
    assert (found[bad.hex]["refusal"], found[bad.hex]["target"]) == ("no header", None)


def test_a_cell_is_shown_whole(restrike: Restrike, store: CellStore) -> None:
    key = kept(store)
    done = restrike("cells", "show", key.hex[:8])
    assert done.code == 0
    for part in (key.hex, "1-4 × 4 × 8 × 8 float32", "2.00x as fast", "g++ 12.2.0", *MEMBERS):
        assert part in done.out
    found = restrike("cells", "show", key.hex[:8], "--json").json
    assert (found["key"], found["proof"]["tolerance"]) == (key.hex, 1e-4)
    assert [member["name"] for member in found["members"]] == sorted(MEMBERS)


def test_a_cell_that_is_not_there_is_not_found(restrike: Restrike, store: CellStore) -> None:
    done = restrike("cells", "show", "abc")
    assert done.code == 2
    assert "begins with 'abc'" in done.err


def test_verify_sets_aside_and_ends_as_refused(restrike: Restrike, store: CellStore) -> None:
    key = kept(store)
    assert restrike("cells", "verify").code == 0
    flip(store, key)
    done = restrike("cells", "verify")
    assert (done.code, done.out) == (2, "1 cells: 1 refused\n")
    assert "(flipped bytes)" in done.err
    assert "flipped bytes" in restrike("cells", "list").out
    aside = restrike("cells", "list", "--json").json["quarantined"]
    assert [(cell["key"], cell["reason"]) for cell in aside] == [(key.hex, "flipped bytes")]


def test_verify_prints_one_object(restrike: Restrike, store: CellStore) -> None:
    key = kept(store)
    flip(store, key)
    done = restrike("cells", "verify", "--json")
    assert done.code == 2
    assert '"reason": "flipped bytes"' in done.out


def test_gc_keeps_what_fits(restrike: Restrike, store: CellStore) -> None:
    key = kept(store)
    assert restrike("cells", "gc").code == 0
    assert store.has(key)
    assert restrike("cells", "gc", "--limit", "0", "--json").json["evicted"] == 1
    assert not store.has(key)


def test_push_and_pull(
    restrike: Restrike, store: CellStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = kept(store)
    url = (tmp_path / "tier").as_uri()
    assert restrike("cells", "push", url).out == "1 cells sent, 0 were there\n"
    store.collect(0)
    monkeypatch.setenv("RESTRIKE_CELLS", url)
    settings.cache_clear()
    assert restrike("cells", "pull", "--key", key.hex[:6], "--json").json == {
        "moved": [key.hex],
        "already": 0,
        "refused": {},
    }
    assert store.has(key)
    assert restrike("cells", "pull", "--key", "zz").code == 2


def test_a_pull_of_what_is_not_trusted_ends_as_refused(
    restrike: Restrike, store: CellStore, tmp_path: Path
) -> None:
    stranger = CellStore(tmp_path / "theirs")
    kept(stranger)
    from restrike.mint.store.moving import push
    from restrike.mint.store.tier import Tier

    url = (tmp_path / "tier").as_uri()
    push(stranger, Tier(url), [cell.key for cell in stranger.cells()])
    refused = restrike("cells", "pull", url)
    assert refused.code == 2
    assert "1 untrusted key" in refused.err
    assert restrike("keys", "trust", str(stranger.ring.signer().public), "--name", "theirs").code == 0
    assert restrike("cells", "pull", url).out == "1 cells fetched, 0 were there\n"


def test_a_place_must_be_named(restrike: Restrike, store: CellStore) -> None:
    for verb in ("push", "pull"):
        done = restrike("cells", verb)
        assert done.code == 2
        assert "RESTRIKE_CELLS" in done.err


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("s33://bucket/x", "nothing speaks 's33://'; did you mean 's3://'?"),
        ("qqqqqq://x", "nothing speaks 'qqqqqq://'; a folder, or a URL such as 's3://bucket/cells'"),
        ("s3:/bucket/x", "two slashes follow the scheme of a URL, 's3://'; a folder of that name is"),
        ("{file}", "cannot be used (Not a directory)"),
        ("{file}/deeper", "cannot be used (Not a directory)"),
        ("file://{file}", "cannot be used (Not a directory)"),
    ],
)
@pytest.mark.parametrize("verb", ["push", "pull"])
def test_a_place_that_cannot_be_one_is_refused_by_name_with_what_to_do(
    restrike: Restrike,
    store: CellStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    url: str,
    words: str,
) -> None:
    kept(store)
    (tmp_path / "file").write_text("no folder")
    url = url.format(file=tmp_path / "file")
    given = restrike("cells", verb, url)
    monkeypatch.setenv("RESTRIKE_CELLS", url)
    settings.cache_clear()
    set_ = restrike("cells", verb)
    for done, place in ((given, f"cells at '{url}'"), (set_, f"RESTRIKE_CELLS={url}")):
        assert (done.code, done.err.count("\n"), done.out) == (2, 1, "")
        assert place in done.err
        assert words in done.err
    if "cannot be used" in words:
        assert "name a folder that can be written, or a bucket" in given.err
        assert "set RESTRIKE_CELLS to a folder that can be written, or a bucket" in set_.err


@pytest.mark.parametrize(
    ("number", "code", "words"),
    [
        (errno.ENOSPC, 3, "no space is left for RESTRIKE_CELLS={url}; make room, or set RESTRIKE_CELLS to a"),
        (errno.EACCES, 2, "RESTRIKE_CELLS={url} cannot be used (Permission denied); set RESTRIKE_CELLS to a"),
        (errno.EROFS, 2, "RESTRIKE_CELLS={url} cannot be used (Read-only file system); set RESTRIKE_CELLS"),
    ],
)
def test_a_place_that_is_full_or_may_not_be_written_is_named_with_what_to_do(
    restrike: Restrike,
    store: CellStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    code: int,
    words: str,
) -> None:
    kept(store)
    url = str(tmp_path / "tier")
    monkeypatch.setenv("RESTRIKE_CELLS", url)
    settings.cache_clear()
    write = files.write_synced

    def failing(path: Path, data: bytes) -> None:
        if path.is_relative_to(url):
            raise OSError(number, os.strerror(number), str(path))
        write(path, data)

    monkeypatch.setattr(files, "write_synced", failing)
    done = restrike("cells", "push")
    assert (done.code, done.err.count("\n")) == (code, 1)
    assert words.format(url=url) in done.err


@pytest.mark.parametrize(
    "verb",
    [
        ("mint", "digits"),
        ("mint", "digits", "--dry-run"),
        ("cells", "gc"),
        ("cells", "pull", "memory://x"),
        ("keys", "new", "a"),
    ],
)
def test_a_store_that_is_a_file_or_full_is_refused_before_any_work(
    restrike: Restrike, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: tuple[str, ...]
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("RESTRIKE_STORE", str(tmp_path / "file"))
    settings.cache_clear()
    done = restrike(*verb)
    place = f"the store at '{tmp_path / 'file' / 'cells'}'"
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert f"{place} cannot be used (Not a directory); set RESTRIKE_STORE to a folder that can" in done.err

    def full(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setenv("RESTRIKE_STORE", str(tmp_path / "full"))
    settings.cache_clear()
    monkeypatch.setattr(place_of_cells, "write_synced", full)
    done = restrike(*verb)
    assert (done.code, done.err.count("\n")) == (3, 1)
    assert "make room, or set RESTRIKE_STORE to a folder that can be written" in done.err
    settings.cache_clear()
