"""The local store: the first cell of a key stays, nothing unverified leaves, refused cells are set aside."""

from __future__ import annotations

import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mint.cells import FACTS, HOST, MEMBERS, TARGET, Making
from mint.rewriting import Parts
from restrike.errors import NotFound, Refused
from restrike.keys import Digest
from restrike.mint.cell import layout
from restrike.mint.cell.host import Host
from restrike.mint.cell.keyring import Keyring
from restrike.mint.cell.refusal import CellRefusal, CellRefused
from restrike.mint.store.store import CellStore

KEY = Digest("0" * 64)


def kept(store: CellStore, making: Making | None = None) -> Digest:
    """A published cell's key."""
    file = (making or Making()).sealed(store.root.parent / "kept" / "made.cell", store.ring.signer())
    store.publish(file)
    key = Parts.of(file).key
    shutil.rmtree(file.parent)
    return key


def other(number: int) -> Making:
    """A cell of another graph."""
    return Making().with_facts(graph=f"{number:064x}")


def size_bytes(store: CellStore) -> int:
    return sum(cell.size_bytes for cell in store.cells())


# Publishing.


def test_a_published_cell_is_found_opened_and_unpacked(store: CellStore, tmp_path: Path) -> None:
    key = kept(store)
    assert store.has(key)
    with store.open(key, HOST) as cell:
        cell.unpack(tmp_path / "out")
        assert cell.manifest.facts == FACTS
        assert cell.header.key == key
    assert {name: (tmp_path / "out" / name).read_bytes() for name in MEMBERS} == MEMBERS
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o700


def test_looking_makes_nothing(store: CellStore) -> None:
    assert not store.has(KEY)
    assert store.cells() == store.quarantined() == ()
    assert store.verify().cells == 0
    with pytest.raises(NotFound), store.open(KEY, HOST):
        pass
    assert not (store.root / "sealed").exists()


def test_the_first_cell_of_a_key_stays(store: CellStore, sealed: Path, tmp_path: Path) -> None:
    assert store.publish(sealed) == "published"
    later = Making().with_facts(compiler="clang").sealed(tmp_path / "later.cell", store.ring.signer())
    assert store.publish(later) == "already"
    (cell,) = store.cells()
    assert store.path(cell.key).read_bytes() == sealed.read_bytes()


def test_a_cell_that_comes_between_the_look_and_the_rename_stays(
    store: CellStore, sealed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = Making().with_facts(compiler="another").sealed(tmp_path / "second.cell", store.ring.signer())
    target, write = store.path(Parts.of(sealed).key), store._database.write

    @contextmanager
    def late() -> Iterator[Any]:
        with write() as connection:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(sealed, target)
            yield connection

    monkeypatch.setattr(store._database, "write", late)
    assert store.publish(second) == "already"
    assert target.read_bytes() == sealed.read_bytes()


def test_a_broken_first_cell_gives_way(store: CellStore, sealed: Path) -> None:
    key = kept(store)
    store.path(key).write_bytes(b"broken")
    assert store.publish(sealed) == "published"
    assert [cell.reason for cell in store.quarantined()] == ["no header"]
    with store.open(key, HOST):
        pass


def test_an_unproved_cell_is_not_published(store: CellStore, tmp_path: Path) -> None:
    draft = Making().with_facts(proof=None).sealed(tmp_path / "draft.cell", store.ring.signer())
    with pytest.raises(CellRefused) as caught:
        store.publish(draft)
    assert caught.value.reason is CellRefusal.UNPROVED
    assert store.cells() == ()


def test_what_is_refused_is_not_published_and_leaves_nothing(store: CellStore, tmp_path: Path) -> None:
    unsigned = Making().sealed(tmp_path / "unsigned.cell", None)
    stranger = Making().sealed(tmp_path / "stranger.cell", Keyring(tmp_path / "theirs").signer())
    for file, reason in ((unsigned, CellRefusal.UNSIGNED), (stranger, CellRefusal.UNTRUSTED_KEY)):
        with pytest.raises(CellRefused) as caught:
            store.publish(file)
        assert caught.value.reason is reason
    assert store.cells() == ()
    assert not list(store.partial.iterdir())


def test_a_cell_for_another_machine_can_be_published_here(store: CellStore) -> None:
    key = kept(store, Making(target=replace(TARGET, kind="cuda", gpu="sm_90")))
    assert store.look(key)[0].header.facts.target.gpu == "sm_90"


def test_a_store_that_cannot_be_written_says_so_and_is_read(store: CellStore, sealed: Path) -> None:
    key = kept(store)
    read_only = CellStore(store.root)
    read_only._database.writable = False
    with read_only.open(key, HOST) as cell:
        assert cell.header.key == key
    for write in (lambda: read_only.publish(sealed), lambda: read_only.minting(KEY).__enter__()):
        with pytest.raises(Refused, match="cannot be written"):
            write()


# Refusing.


def flipped(store: CellStore, key: Digest) -> None:
    data = bytearray(store.path(key).read_bytes())
    data[-1] ^= 1
    store.path(key).write_bytes(data)


def cut(store: CellStore, key: Digest) -> None:
    store.path(key).write_bytes(store.path(key).read_bytes()[:-1])


def swapped(store: CellStore, key: Digest) -> None:
    parts = Parts.of(store.path(key))
    replace(parts, members=parts.members[::-1]).write(store.path(key))


def beheaded(store: CellStore, key: Digest) -> None:
    data = store.path(key).read_bytes()
    store.path(key).write_bytes(data[layout.head_of(data).size_bytes :])


def exchanged(store: CellStore, key: Digest) -> None:
    shutil.copy(store.path(kept(store, other(7))), store.path(key))


def other_header(store: CellStore, key: Digest) -> None:
    theirs = Parts.of(store.path(key)).with_header(manifest={"hex": "3" * 64}).signed_by(store.ring.signer())
    theirs.write(store.path(key))


def restamped(store: CellStore, key: Digest) -> None:
    # A whole cell of another graph under this cell's name, with this cell's key stamped on it.
    whole = Parts.of(store.path(kept(store, other(7)))).with_header(key={"hex": key.hex})
    whole.signed_by(store.ring.signer()).write(store.path(key))


def resigned(store: CellStore, key: Digest) -> None:
    signer = store.ring.signer()
    signed = signer.public.raw + signer.sign(b"something else")
    replace(Parts.of(store.path(key)), signed=signed).write(store.path(key))


def unsigned(store: CellStore, key: Digest) -> None:
    replace(Parts.of(store.path(key)), signed=b"").write(store.path(key))


def by_a_stranger(store: CellStore, key: Digest) -> None:
    signer = Keyring(store.root / "theirs").signer()
    Parts.of(store.path(key)).signed_by(signer).write(store.path(key))


def revoked(store: CellStore, key: Digest) -> None:
    store.ring.revoke(store.ring.signer().public.fingerprint, "lost")


ATTACKS: dict[Callable[[CellStore, Digest], None], CellRefusal] = {
    flipped: CellRefusal.FLIPPED_BYTES,
    cut: CellRefusal.TRUNCATED,
    swapped: CellRefusal.SWAPPED_MEMBERS,
    beheaded: CellRefusal.NO_HEADER,
    exchanged: CellRefusal.WRONG_KEY,
    restamped: CellRefusal.WRONG_KEY,
    other_header: CellRefusal.HEADER_OF_ANOTHER,
    resigned: CellRefusal.WRONG_SIGNATURE,
    unsigned: CellRefusal.UNSIGNED,
    by_a_stranger: CellRefusal.UNTRUSTED_KEY,
    revoked: CellRefusal.REVOKED_KEY,
}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_each_is_refused_by_its_name_and_set_aside(
    attack: Callable[[CellStore, Digest], None], store: CellStore
) -> None:
    key = kept(store)
    with store.open(key, HOST):
        pass
    attack(store, key)
    with pytest.raises(CellRefused) as caught, store.open(key, HOST):
        raise AssertionError("it was handed out")
    assert caught.value.reason is ATTACKS[attack]
    assert not store.has(key)
    (aside,) = store.quarantined()
    assert (aside.key, aside.reason) == (key.hex, ATTACKS[attack].value)
    assert caught.value.detail == aside.detail
    assert aside.path.exists()
    # Not a single cell was mapped, for its code to be run.
    assert ".cell" not in Path("/proc/self/maps").read_text()


HOSTS = {
    CellRefusal.FOREIGN_ARCHITECTURE: replace(HOST, target=replace(TARGET, machine="aarch64", order=0)),
    CellRefusal.NEWER_CAPABILITY: replace(HOST, target=replace(TARGET, cpu="DEFAULT", order=0)),
    CellRefusal.OTHER_TORCH: replace(HOST, torch="2.12.0+cpu"),
}


@pytest.mark.parametrize("reason", HOSTS)
def test_a_cell_that_this_machine_cannot_run_is_set_aside(reason: CellRefusal, store: CellStore) -> None:
    key = kept(store)
    with pytest.raises(CellRefused) as caught, store.open(key, HOSTS[reason]):
        raise AssertionError("it was handed out")
    assert caught.value.reason is reason
    assert [cell.reason for cell in store.quarantined()] == [reason.value]


def test_after_a_refusal_the_next_mint_publishes(store: CellStore) -> None:
    key = kept(store)
    flipped(store, key)
    with pytest.raises(CellRefused), store.open(key, HOST):
        pass
    with store.minting(key) as mine:
        assert mine
        assert kept(store) == key
    with store.open(key, HOST):
        pass


def test_a_file_changed_after_it_was_verified_is_not_unpacked(store: CellStore, tmp_path: Path) -> None:
    key = kept(store)
    with store.open(key, HOST) as cell:
        flipped(store, key)
        with pytest.raises(CellRefused) as caught:
            cell.unpack(tmp_path / "out")
    assert caught.value.reason is CellRefusal.FLIPPED_BYTES


def test_unpacking_writes_over_nothing(store: CellStore, tmp_path: Path) -> None:
    key = kept(store)
    with store.open(key, HOST) as cell:
        cell.unpack(tmp_path / "out")
        with pytest.raises(Exception, match="exists"):
            cell.unpack(tmp_path / "out")


def test_verify_looks_at_every_byte_and_sets_aside(store: CellStore) -> None:
    good, bad = kept(store), kept(store, other(1))
    assert store.verify().refused == ()
    flipped(store, bad)
    checked = store.verify()
    assert checked.cells == 2
    assert [(cell.key, cell.reason) for cell in checked.refused] == [(bad.hex, "flipped bytes")]
    assert (store.has(good), store.has(bad)) == (True, False)


# Listing.


def test_the_list_says_what_a_header_says(store: CellStore) -> None:
    key = kept(store)
    bad = kept(store, other(1))
    beheaded(store, bad)
    (store.root / "sealed" / "notes.cell").write_text("not named by a key")
    found = {cell.key: cell for cell in store.cells()}
    assert set(found) == {key, bad}
    header = found[key].header
    assert header is not None
    assert (header.facts.target, found[key].refusal) == (TARGET, None)
    assert (found[bad].header, found[bad].refusal) == (None, CellRefusal.NO_HEADER)


def test_what_is_no_file_or_goes_while_others_look_is_passed_over(
    store: CellStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, sealed = kept(store), store.root / "sealed"
    (sealed / f"{'0' * 64}.cell").symlink_to("nowhere")
    os.mkfifo(sealed / f"{'1' * 64}.cell")
    (sealed / f"{'2' * 64}.cell").mkdir()
    assert [cell.key for cell in store.cells()] == [key]
    # Listed, and gone before it is looked at.
    paths = [sealed / f"{'3' * 64}.cell", store.path(key)]
    monkeypatch.setattr(CellStore, "_paths", lambda store: paths)
    assert [cell.key for cell in store.cells()] == [key]
    assert store.verify().cells == 1


def test_what_is_no_cell_does_not_stand_in_the_way_of_a_collection(store: CellStore) -> None:
    kept(store)
    (store.root / "sealed" / f"{'0' * 64}.cell").symlink_to("nowhere")
    assert store.collect(0).evicted == 1


def test_a_key_is_found_by_its_beginning(store: CellStore) -> None:
    one, _ = kept(store), kept(store, other(1))
    assert store.find(one.hex[:20]) == one
    with pytest.raises(NotFound):
        store.find("zz")
    with pytest.raises(Refused, match="several"):
        store.find("")


# Collecting.


def test_the_longest_unused_goes_first(store: CellStore) -> None:
    keys = [kept(store, other(number)) for number in range(3)]
    for age_s, key in enumerate(keys):
        os.utime(store.path(key), (1000 + age_s, 1000 + age_s))
    with store.open(keys[0], HOST):
        pass
    one = size_bytes(store) // 3
    collected = store.collect(2 * one)
    assert collected.evicted == 1
    assert collected.freed_bytes > 0
    assert [store.has(key) for key in keys] == [True, False, True]
    assert store.collect(2 * one).evicted == 0


def test_what_is_used_or_minted_stays(store: CellStore) -> None:
    used, minted, idle = (kept(store, other(number)) for number in range(3))
    store.path(minted).rename(store.root / "aside")
    with store.open(used, HOST), store.minting(minted) as mine:
        assert mine
        (store.root / "aside").rename(store.path(minted))
        assert store.collect(0).evicted == 1
        assert [store.has(key) for key in (used, minted, idle)] == [True, True, False]
    assert store.collect(0).evicted == 2


def test_leftovers_go_when_nobody_can_be_writing_them(store: CellStore) -> None:
    kept(store)
    old, young = store.partial / "old.cell", store.partial / "young.cell"
    for path in (old, young):
        path.write_bytes(b"x" * 10)
    os.utime(old, (1000, 1000))
    collected = store.collect()
    assert (collected.partial, collected.evicted, collected.freed_bytes) == (1, 0, 10)
    assert young.exists()


def test_the_quarantine_is_emptied_after_a_month(store: CellStore, monkeypatch: pytest.MonkeyPatch) -> None:
    key = kept(store)
    store.quarantine(key, "by hand", "for a test")
    assert store.collect().quarantined == 0
    month_later = time.time() + 31 * 24 * 3600
    monkeypatch.setattr(time, "time", lambda: month_later)
    assert store.collect().quarantined == 1
    assert store.quarantined() == ()


def test_setting_aside_twice_is_no_failure(store: CellStore) -> None:
    key = kept(store)
    aside = store.quarantine(key, "by hand", "for a test")
    assert aside is not None
    assert store.quarantine(key, "by hand", "for a test") is None
    assert json.loads(aside.path.with_suffix(".json").read_text())["reason"] == "by hand"
    assert len(list((store.root / "quarantine").iterdir())) == 2


def test_the_host_is_asked_for_each_time(store: CellStore) -> None:
    key = kept(store)
    newer: Host = replace(HOST, target=replace(TARGET, cpu="AVX512", order=2))
    for host in (HOST, newer):
        with store.open(key, host) as cell:
            assert cell.header.facts.target == TARGET
